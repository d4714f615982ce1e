"""The server of `gym-recording view`: what it gives, to whom, and what never. The page: test_viewer_page.py."""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

import gym_recording
from gym_recording import TraceRecording
from gym_recording.cli import main
from gym_recording.viewer import RecordingServer, whole_page

PACKAGE = Path(gym_recording.__file__).parent
NAME = "openaigym.trace.0.12-0123456789ab.ep000000000.bin"
BYTES = bytes(range(100))


@pytest.fixture
def directory(tmp_path):
    """A recording of one episode, and a blob whose bytes are known."""
    directory = tmp_path / "recording"
    with TraceRecording(directory, durability="none") as recording:
        recording.add_reset(1.0)
        recording.add_step(0, 2.0, 0.5)
    (directory / NAME).write_bytes(BYTES)
    return directory


@pytest.fixture
def server(directory):
    with RecordingServer(directory) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, method="GET", raw=False, **headers):
    """The status, headers and body of an answer. `path` follows the token, unless `raw`."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    with contextlib.closing(connection):
        connection.putrequest(method, path if raw else f"/{server.token}/{path}", skip_host="Host" in headers)
        for key, value in headers.items():
            connection.putheader(key.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def send(server, data):
    """What the server answers to bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


# ---- what it gives


def test_the_url_shows_the_page_that_knows_its_recording(server):
    with urllib.request.urlopen(server.url) as answer:
        page = answer.read().decode()
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert '<meta name="recording" content="../recording/">' in page
    assert '<meta name="recording" content="">' in (PACKAGE / "viewer" / "index.html").read_text()


def test_every_module_of_the_page_is_there_where_it_is_imported_from(server):
    left, seen = ["viewer/main.js"], set()
    while left:
        path = left.pop()
        seen.add(path)
        status, headers, body = ask(server, path)
        assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8"), path
        for name in re.findall(r'^(?:import|} from|.* from) "(\.[^"]+)"', body.decode(), re.M):
            target = os.path.normpath(os.path.join(os.path.dirname(path), name))
            left += [target] if target not in seen else []
    modules = {path.name for path in (PACKAGE / "viewer").glob("*.js")}
    assert seen == {f"viewer/{name}" for name in modules} | {"readers/gym_recording.js", "viewer/uplot/uPlot.esm.js"}


def test_the_list_has_the_documents_and_a_version_that_changes_with_the_file(server, directory):
    def listing():
        return json.loads(ask(server, "recording/")[2])

    first = listing()
    documents = sorted(path.name for path in directory.iterdir() if path.suffix == ".json")
    assert first["directory"] == "recording"
    assert [name for name, _, _ in first["documents"]] == documents
    assert [size for _, _, size in first["documents"]] == [(directory / name).stat().st_size for name in documents]
    assert len(documents) == 2
    os.replace(_copy(directory / documents[0]), directory / documents[0])
    second = listing()
    assert first["documents"][0] != second["documents"][0]
    assert first["documents"][1] == second["documents"][1]


def _copy(path):
    copy = path.with_suffix(".tmp")
    copy.write_bytes(path.read_bytes())
    return copy


def test_a_directory_that_is_gone_has_no_documents(server, directory):
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    assert json.loads(ask(server, "recording/")[2])["documents"] == []


def test_a_directory_that_cannot_be_read_is_told_and_leaves_no_traceback(server, directory, capfd):
    directory.rename(directory.parent / "moved")
    directory.write_text("")
    status, _, body = ask(server, "recording/")
    assert (status, body) == (500, b"500 Internal Server Error: the directory cannot be read: Not a directory\n")
    assert ask(server, f"recording/{NAME}")[0] == 404
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-9", (0, 10)),
        ("bytes=10-", (10, 100)),
        ("bytes=99-99", (99, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-1", (99, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        (f"bytes=5-{10**17}", (5, 100)),
    ],
)
def test_a_range_gives_these_bytes(server, asked, expected):
    start, end = expected
    status, headers, body = ask(server, f"recording/{NAME}", Range=asked)
    assert (status, body) == (206, BYTES[start:end])
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/100"
    assert headers["Content-Length"] == str(end - start)
    assert headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={10**17}-"])
def test_a_range_beyond_the_end_is_416(server, asked):
    status, headers, body = ask(server, f"recording/{NAME}", Range=asked)
    assert (status, headers["Content-Range"], body) == (416, "bytes */100", b"")


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5-2",
        "bytes=0-1,3-4",
        "lines=0-1",
        "bytes=a-b",
        "bytes=-1-2",
        f"bytes={10**40}-",
    ],
)
def test_what_is_no_single_range_gets_the_whole_file(server, asked):
    status, headers, body = ask(server, f"recording/{NAME}", Range=asked)
    assert (status, body, headers["Content-Range"]) == (200, BYTES, None)
    assert headers["Accept-Ranges"] == "bytes"


def test_a_range_under_a_condition_gets_the_whole_file_because_no_file_has_a_tag(server):
    assert ask(server, f"recording/{NAME}", Range="bytes=0-1", If_Range='"x"')[0] == 200


def test_an_empty_file_has_no_range(server, directory):
    (directory / NAME).write_bytes(b"")
    assert ask(server, f"recording/{NAME}")[0::2] == (200, b"")
    assert ask(server, f"recording/{NAME}", Range="bytes=0-0")[0] == 416
    assert ask(server, f"recording/{NAME}", Range="bytes=-1")[0] == 416


@pytest.mark.parametrize("path", ["viewer/", "viewer/main.js", "recording/", f"recording/{NAME}"])
def test_head_is_get_without_a_body(server, path):
    got, asked = ask(server, path), ask(server, path, "HEAD")
    assert asked[0] == got[0] == 200
    assert asked[1]["Content-Length"] == got[1]["Content-Length"] == str(len(got[2]))
    assert asked[2] == b""
    assert ask(server, f"recording/{NAME}", "HEAD", Range="bytes=0-9")[1]["Content-Length"] == "10"


def test_one_connection_serves_many_requests(server):
    request = f"GET /{server.token}/recording/{NAME} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    both = send(server, f"{request}Range: bytes=1-2\r\n\r\n{request}Range: bytes=3-4\r\n\r\n".encode())
    assert both.count(b"HTTP/1.1 206") == 2
    assert both.endswith(BYTES[3:5])


# ---- what it never gives


def test_it_listens_on_loopback_alone_and_draws_port_and_token_anew(server, directory):
    assert server.server_address[0] == "127.0.0.1"
    with RecordingServer(directory) as other:
        assert other.server_port != server.server_port
        assert other.token != server.token
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    "path", ["/", "/viewer/", "//viewer/", "/x/viewer/", "/é/recording/", "x", "*", "/%2e/viewer/"]
)
def test_without_the_token_nothing_is_given(server, path):
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode("latin-1")
    assert send(server, request).startswith(b"HTTP/1.1 403 ")


def test_a_token_that_differs_in_one_character_is_none(server):
    for token in (server.token[:-1], server.token + "a", server.token.swapcase(), "a" * len(server.token)):
        assert ask(server, f"/{token}/viewer/", raw=True)[0] == 403
    assert ask(server, f"/{server.token}/viewer/", raw=True)[0] == 200


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io:{}", "[::1]:{}", "", "0.0.0.0:{}"]
)
def test_a_page_of_the_web_whose_name_resolves_to_this_machine_gets_nothing(server, host):
    assert ask(server, "viewer/", Host=host.format(server.server_port))[0] == 403


def test_its_own_host_is_needed_and_only_once(server):
    def status(*hosts):
        lines = "".join(f"Host: {host}\r\n" for host in hosts)
        return int(
            send(server, f"GET /{server.token}/viewer/ HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())[9:12]
        )

    own = f"127.0.0.1:{server.server_port}"
    assert status(own) == status(f"localhost:{server.server_port}") == 200
    assert status() == status(own, own) == status("example.com", own) == 403


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "..%2fsecret",
        "%2e%2e/secret",
        "/etc/passwd",
        "//etc/passwd",
        "secret",
        f"../recording/{NAME}",
        f"./{NAME}",
        f"%6f{NAME[1:]}",
        f"{NAME}/",
        f"{NAME}%00",
        f".{NAME}.0123456789ab.tmp",
        "openaigym.trace.12-0123456789ab.lock",
    ],
)
def test_no_other_file_is_given(server, directory, name):
    (directory.parent / "secret").write_text("secret")
    (directory / "secret").write_text("secret")
    (directory / f".{NAME}.0123456789ab.tmp").write_text("secret")
    (directory / "openaigym.trace.12-0123456789ab.lock").write_text("secret")
    status, _, body = ask(server, f"recording/{name}")
    assert (status, body) == (404, b"404 Not Found\n")


@pytest.mark.parametrize(
    "path",
    ["viewer/server.py", "viewer/../cli.py", "cli.py", "viewer", "", "readers/", "viewer/uplot/", "viewer/LICENSE"],
)
def test_nothing_of_the_package_is_given_but_the_page(server, path):
    assert ask(server, path)[0] == 404


def test_links_pipes_and_directories_are_not_opened(server, directory):
    secret = directory.parent / "secret"
    secret.write_text("secret")
    for number, make in enumerate([lambda path: path.symlink_to(secret), os.mkfifo, os.mkdir]):
        name = NAME.replace("000000000", f"00000000{number + 1}")
        make(directory / name)
        assert ask(server, f"recording/{name}")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_can_be_changed(server, directory, method):
    before = sorted(directory.iterdir())
    status, headers, _ = ask(server, f"recording/{NAME}", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert ask(server, f"recording/{NAME}", method, Host="example.com")[0] == 405
    assert sorted(directory.iterdir()) == before
    assert (directory / NAME).read_bytes() == BYTES


def test_an_unknown_method_is_refused(server):
    assert ask(server, "viewer/", "BREW")[0] == 501


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00 \x01 \x02 \x03\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_or_too_large_is_refused(server, data, status):
    answer = send(server, data)
    assert str(status).encode() in answer[:16] + answer[-40:]
    assert b"aaaa" not in answer  # nothing of it is told again
    assert ask(server, "viewer/")[0] == 200  # it goes on


@pytest.mark.parametrize("path", ["viewer/", "viewer/main.js", "recording/", f"recording/{NAME}", "nothing"])
def test_every_answer_forbids_what_the_page_does_not_need(server, path):
    _, headers, _ = ask(server, path)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_a_file_that_is_cut_while_it_is_sent_ends_the_connection(server, directory):
    # More than what sockets hold back, so that the server still reads when it is cut.
    with open(directory / NAME, "wb") as file:
        file.truncate(64 * 2**20)
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", f"/{server.token}/recording/{NAME}")
        answer = connection.getresponse()
        answer.read(1)
        os.truncate(directory / NAME, 10)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_who_does_not_read_or_goes_away_leaves_no_traceback(directory, capfd):
    with open(directory / NAME, "wb") as file:
        file.truncate(64 * 2**20)
    ended = threading.Semaphore(0)

    class Impatient(RecordingServer):
        def shutdown_request(self, request):
            super().shutdown_request(request)
            ended.release()

    with Impatient(directory) as server:
        server.RequestHandlerClass = type("Handler", (server.RequestHandlerClass,), {"timeout": 0.2})
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        for is_there in (True, False):
            with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
                host = f"Host: 127.0.0.1:{server.server_port}"
                connection.sendall(f"GET /{server.token}/recording/{NAME} HTTP/1.1\r\n{host}\r\n\r\n".encode())
                assert not is_there or ended.acquire(timeout=30)
        assert ended.acquire(timeout=30)
        server.shutdown()
    assert capfd.readouterr().err == ""


# ---- the command


@contextlib.contextmanager
def run_view(*arguments, before=""):
    """`gym-recording view` in a process, which Ctrl-C reaches even where tests run in the background of a shell."""
    program = f"""
import signal, sys, webbrowser
from gym_recording.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, "view", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_view_prints_the_url_and_serves_until_it_is_interrupted(directory):
    with run_view(directory, "--no-browser") as process:
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/[\w-]{32}/viewer/", url)
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_view_opens_the_browser(directory, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > "{tmp_path}/asked.part" && mv "{tmp_path}/asked.part" "{tmp_path}/asked"\n'
    )
    browser.chmod(0o755)
    ours = f"webbrowser.register('ours', None, webbrowser.GenericBrowser([{str(browser)!r}, '%s']), preferred=True)"
    with run_view(directory, before=ours) as process:
        url = process.stdout.readline().strip()
        wait_for(tmp_path / "asked")
        process.send_signal(signal.SIGINT)
        process.wait(30)
    asked = (tmp_path / "asked").read_text().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/[\w-]{32}/", asked)
    assert asked.split("/")[3] != url.split("/")[3]  # others can read how a browser was started


def test_the_url_that_a_browser_is_started_with_leads_to_the_page_once(server):
    token = server.launch_url.split("/")[3]
    assert ask(server, f"/{token[:-1]}/", raw=True)[0] == 403
    status, headers, body = ask(server, f"/{token}/", raw=True)
    assert (status, headers["Location"], body) == (302, server.url, b"")
    assert ask(server, f"/{token}/", raw=True)[0] == 403
    assert ask(server, "viewer/")[0] == 200


def wait_for(path):
    """Waits for a file that another process makes."""
    for _ in range(3000):
        if path.exists():
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"no {path}")


def test_view_takes_the_port_that_it_is_told(directory):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with run_view(directory, "--no-browser", "--port", port) as process:
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert "ddress already in use" in err
    with run_view(directory, "--no-browser", "--port", port) as process:
        assert f":{port}/" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(30)


def test_view_of_no_directory_is_an_error(tmp_path, capsys):
    assert main(["view", str(tmp_path / "nothing"), "--no-browser"]) == 1
    assert "nothing: No such file or directory" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()


def test_view_needs_a_directory_or_a_page(tmp_path, capsys):
    assert main(["view"]) == main(["view", str(tmp_path), "--page", "x.html"]) == 2
    assert "DIRECTORY or --page" in capsys.readouterr().err


def test_view_writes_the_page_as_one_file_that_reaches_no_network(tmp_path, capsys):
    page = tmp_path / "viewer.html"
    assert main(["view", "--page", str(page)]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    text = page.read_text("utf-8")
    assert text == whole_page()
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy and "connect-src" not in policy
    assert "base-uri 'none'; form-action 'none'" in policy
    for script in re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL):  # these run, and no other
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    urls = json.loads(re.search(r'<script type="importmap">(.*?)</script>', text)[1])["imports"]
    modules = [path.name for path in (PACKAGE / "viewer").glob("*.js")]
    assert sorted(urls) == sorted([*modules, "gym_recording.js", "uPlot.esm.js"])  # no two of one name
