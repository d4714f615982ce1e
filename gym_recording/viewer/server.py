"""Serves the page and one recording, to the browser of this machine alone.

It listens on 127.0.0.1; every URL has a secret token, and the Host must be its own, so that no page of the web can
reach it, whatever a name resolves to. A browser is started with a token that is good once, because others on the
machine can read command lines. It gives the page's own files, the list of the documents, and the files of the recording
whose names are of the format. Nothing is written, and no other file is ever read.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socketserver
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any

from .. import files
from ..errors import TraceError
from ..format import parse_name
from .page import TYPES, page_files

_CHUNK = 2**20
_IDLE = 60.0  # seconds after which a connection that says nothing is closed
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))")  # one; lists of them get the whole file
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# Where index.html says which recording it shows.
_NO_RECORDING = b'<meta name="recording" content="">'
_RECORDING = b'<meta name="recording" content="../recording/">'


class RecordingServer(ThreadingHTTPServer):
    """Serves a recording until it is closed: `serve_forever()`.

    Attributes:
        directory: the recording's.
        url: of the page, with the token.
        launch_url: leads to `url`, the first time that it is asked for.

    Raises:
        OSError: there is no such directory, or the port is not free.
    """

    daemon_threads = True

    def __init__(self, directory: str | os.PathLike[str], port: int = 0) -> None:
        """Listens at `port` of 127.0.0.1, by default any that is free."""
        self.directory = os.path.abspath(os.fspath(directory))
        os.listdir(self.directory)
        self.token = secrets.token_urlsafe(24)
        self.page = page_files()
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/{self.token}/viewer/"
        self.launches = [secrets.token_urlsafe(24)]
        self.launch_url = f"http://127.0.0.1:{self.server_port}/{self.launches[0]}/"

    def server_bind(self) -> None:
        """Binds without asking for the name of the host, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error; all else is printed, as `socketserver` does."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE
    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for the first
    server: RecordingServer

    def version_string(self) -> str:
        return "gym-recording"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who looks at what is not printed."""

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in {
            f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")
        }:
            return self.send_error(HTTPStatus.FORBIDDEN)
        _, _, path = self.path.partition("?")[0].partition("/")
        token, _, path = path.partition("/")
        if not _equal(token, self.server.token):
            return self._launch(token)
        area, _, name = path.partition("/")
        if path == "recording/":
            return self._send_listing()
        if area == "recording":
            return self._send_recorded(name)
        return self._send_page("viewer/index.html" if path == "viewer/" else path)

    do_HEAD = do_GET

    def _launch(self, token: str) -> None:
        """Sends who has the token that is good once to the page."""
        with suppress(IndexError):  # it was used, perhaps just now
            if _equal(token, self.server.launches[0]) and self.server.launches.pop():
                return self._start(HTTPStatus.FOUND, "text/plain; charset=utf-8", 0, {"Location": self.server.url})
        self.send_error(HTTPStatus.FORBIDDEN)

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def send_error(self, code: int, message: str | None = None, explain: str | None = None, why: str = "") -> None:
        """Answers with a status, and why: what was asked for, as in `message`, is not told again."""
        self.close_connection = True  # there may be a body that nobody reads
        allow = {"Allow": "GET, HEAD"} if code == HTTPStatus.METHOD_NOT_ALLOWED else {}
        text = f"{int(code)} {HTTPStatus(code).phrase}{why and ': '}{why}\n".encode()
        self._start(HTTPStatus(code), "text/plain; charset=utf-8", len(text), {**allow, "Connection": "close"})
        if self.command != "HEAD":
            self.wfile.write(text)

    def _start(self, status: HTTPStatus, kind: str, size: int, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(size), **_HEADERS, **(more or {})}.items():
            self.send_header(key, value)
        self.end_headers()

    def _send_bytes(self, data: bytes, kind: str) -> None:
        self._start(HTTPStatus.OK, kind, len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_page(self, path: str) -> None:
        file = self.server.page.get(path)
        if file is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
        self._send_bytes(file.read_bytes().replace(_NO_RECORDING, _RECORDING), TYPES[file.suffix])

    def _send_listing(self) -> None:
        """The documents: the version of each, which is another one when the file is another one, and its size."""
        found = []
        try:
            for name in files.listing(self.server.directory):
                parts = parse_name(name)
                if parts is None or parts.kind == "blob":
                    continue
                with suppress(FileNotFoundError):
                    status = os.lstat(os.path.join(self.server.directory, name))
                    version = f"{status.st_ino:x}.{status.st_size:x}.{status.st_mtime_ns:x}"
                    found.append([name, version, status.st_size])
        except OSError as error:
            return self.send_error(
                HTTPStatus.INTERNAL_SERVER_ERROR, why=f"the directory cannot be read: {error.strerror}"
            )
        listing = {"directory": os.path.basename(self.server.directory), "documents": found}
        self._send_bytes(json.dumps(listing).encode(), "application/json")

    def _send_recorded(self, name: str) -> None:
        if parse_name(name) is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
        try:
            file = files.open_file(self.server.directory, name)
        except (FileNotFoundError, TraceError):  # TraceError: a link, a pipe, or one that may not be read
            return self.send_error(HTTPStatus.NOT_FOUND)
        with file:
            size = os.fstat(file.fileno()).st_size
            kind = "application/json" if name.endswith(".json") else "application/octet-stream"
            asked = None if "If-Range" in self.headers else _RANGE.fullmatch(self.headers.get("Range", ""))
            start, end = 0, size
            if asked and asked[3]:
                start = size - min(int(asked[3]), size)
            elif asked:
                start, end = int(asked[1]), min(int(asked[2]) + 1, size) if asked[2] else size
                if asked[2] and int(asked[2]) < start:  # means nothing: as if it were not there
                    asked, start, end = None, 0, size
            if asked is None:
                self._start(HTTPStatus.OK, kind, size, {"Accept-Ranges": "bytes"})
            elif start >= size:
                return self._start(
                    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, kind, 0, {"Content-Range": f"bytes */{size}"}
                )
            else:
                about = {"Accept-Ranges": "bytes", "Content-Range": f"bytes {start}-{end - 1}/{size}"}
                self._start(HTTPStatus.PARTIAL_CONTENT, kind, end - start, about)
            if self.command != "HEAD":
                self._copy(file, start, end)

    def _copy(self, file: IO[bytes], start: int, end: int) -> None:
        file.seek(start)
        while start < end:
            data = file.read(min(_CHUNK, end - start))
            if not data:  # it was cut meanwhile: the browser sees that less came
                self.close_connection = True
                return
            self.wfile.write(data)
            start += len(data)


def _equal(given: str, token: str) -> bool:
    """Whether it is the token; how long that takes does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
