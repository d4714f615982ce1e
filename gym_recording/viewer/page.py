"""The files of the page, and all of them in one that opens without a server.

Browsers load no modules from `file:`. So the one file has every module as a `data:` URL in an import map, by its bare
name, and a policy that lets it reach no network. The page itself is in index.html and what that names.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}

_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
_STYLE = re.compile(r'<link rel="stylesheet" href="([\w./-]+)">')
_SCRIPT = re.compile(r'<script type="module" src="([\w./-]+)"></script>')
_IMPORT = re.compile(r'\b(from|import) "\.{1,2}/[\w./-]*?([\w.-]+\.js)"')


def page_files() -> dict[str, Path]:
    """What a server serves, by path: the page, `viewer/…`, and the reader in JavaScript, which it imports."""
    files = [path for path in (PACKAGE / "viewer").rglob("*") if path.suffix in TYPES]
    return {path.relative_to(PACKAGE).as_posix(): path for path in [*files, PACKAGE / "readers" / "gym_recording.js"]}


def whole_page() -> str:
    """The page as one HTML file that needs nothing else; it opens folders that are chosen or dropped on it."""
    modules = {path.name: path.read_text("utf-8") for path in page_files().values() if path.suffix == ".js"}
    urls = {name: _data_url(_IMPORT.sub(r'\1 "\2"', text)) for name, text in modules.items()}
    html = (PACKAGE / "viewer" / "index.html").read_text("utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    html = html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1)
    html = _STYLE.sub(lambda link: f"<style>{(PACKAGE / 'viewer' / link[1]).read_text('utf-8')}</style>", html)
    start = '<script type="importmap">{}</script>\n<script type="module">import "{}";</script>'
    return _SCRIPT.sub(lambda script: start.format(json.dumps({"imports": urls}), script[1]), html)


def _data_url(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
