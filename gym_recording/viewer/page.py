"""The files of the page, and all of them in one that opens without a server.

Browsers load no modules from `file:`. So the one file has every module as a `data:` URL in an import map, by its bare
name, and a policy that lets it run nothing else and load nothing. The page itself is in index.html and what that names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}

_POLICY = (
    "default-src 'none'; script-src {} data:; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
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
    html = _STYLE.sub(lambda link: f"<style>{(PACKAGE / 'viewer' / link[1]).read_text('utf-8')}</style>", html)
    script = _SCRIPT.search(html)
    assert script is not None
    inline = json.dumps({"imports": urls}), f'import "{script[1]}";'
    scripts = '<script type="importmap">{}</script>\n<script type="module">{}</script>'.format(*inline)
    policy = _POLICY.format(" ".join(map(_digest, inline)))
    html = html.replace(script[0], scripts)
    meta = '<meta charset="utf-8">'
    return html.replace(meta, f'{meta}\n<meta http-equiv="Content-Security-Policy" content="{policy}">', 1)


def _digest(script: str) -> str:
    """A script as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _data_url(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
