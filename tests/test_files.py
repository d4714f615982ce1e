"""Files: put whole or not at all, and only regular ones are read. Full disks and hostile files are real ones."""

import errno
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

from gym_recording import TraceError, files

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def run(code, *arguments, wrap=(), **options):
    """What a Python program prints that can use `files`."""
    code = "import os, sys\nfrom gym_recording import files\n" + textwrap.dedent(code)
    root = os.path.dirname(os.path.dirname(os.path.abspath(files.__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    command = [*wrap, sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment,
        timeout=60,
        **options,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# ---- put


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b""],
        [b"abc"],
        [b"", b"a", b"", bytearray(b"bc"), memoryview(b"def"), b""],
        [memoryview(bytes(16)).cast("d")],
        [b"%d," % i for i in range(5000)],  # more than one writev takes
        [bytes([i]) * 100_000 for i in range(30)],
    ],
)
def test_the_pieces_are_put_one_after_the_other(tmp_path, pieces, sync):
    files.put(str(tmp_path), "name", pieces, sync)
    assert (tmp_path / "name").read_bytes() == b"".join(map(bytes, pieces))
    assert os.listdir(tmp_path) == ["name"]


def test_a_file_that_is_there_is_replaced(tmp_path):
    files.put(str(tmp_path), "name", [b"old, and longer"], True)
    files.put(str(tmp_path), "name", [b"new"], True)
    assert (tmp_path / "name").read_bytes() == b"new"


@POSIX
def test_a_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    old = os.umask(0o027)
    try:
        files.put(str(tmp_path), "name", [b"x"], False)
    finally:
        os.umask(old)
    assert (tmp_path / "name").stat().st_mode & 0o777 == 0o640


@POSIX
@pytest.mark.parametrize("limit", [0, 1, 100_000, 119_999])
@pytest.mark.parametrize("sync", [True, False])
def test_when_a_file_cannot_grow_an_error_names_it_and_nothing_is_left(tmp_path, limit, sync):
    # The system writes up to the limit, which is a short write, then refuses.
    (tmp_path / "name").write_bytes(b"old")
    printed = run(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
        try:
            files.put(sys.argv[1], "name", [b"a" * 40_000] * 3, sys.argv[3] == "True")
        except OSError as error:
            print(error.errno, error.filename)
        """,
        tmp_path,
        limit,
        sync,
    )
    assert printed == f"{errno.EFBIG} {tmp_path / 'name'}\n"
    assert os.listdir(tmp_path) == ["name"]
    assert (tmp_path / "name").read_bytes() == b"old"


@POSIX
def test_a_short_write_is_continued_where_it_ended():
    # A signal cuts the write to a full pipe short. Nobody reads from the pipe before that has happened.
    readable, writable = os.pipe()
    cut_short, received = threading.Event(), []

    def read_all():
        cut_short.wait()
        with open(readable, "rb") as file:
            received.append(file.read())

    def on_alarm(*_):
        if not select.select([], [writable], [], 0)[1]:
            cut_short.set()

    thread = threading.Thread(target=read_all)
    thread.start()
    old = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        pieces = [bytes([number % 251]) * 1001 for number in range(3000)]
        files._write_all(writable, pieces)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        os.close(writable)
    thread.join()
    assert received == [b"".join(pieces)]


def mounts_are_allowed():
    if sys.platform != "linux" or shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not mounts_are_allowed(), reason="needs Linux and the right to mount")
def test_when_the_disk_is_full_an_error_names_the_file_and_nothing_is_left(tmp_path):
    printed = run(
        """
        import subprocess
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", sys.argv[1]], check=True)
        files.put(sys.argv[1], "small", [b"abc"], True)
        for sync in (True, False):
            try:
                files.put(sys.argv[1], "name", [b"a" * 100_000] * 3, sync)
            except OSError as error:
                print(error.errno, error.filename, os.listdir(sys.argv[1]))
        files.put(sys.argv[1], "name", [b"a" * 100_000], True)
        print(os.path.getsize(os.path.join(sys.argv[1], "name")))
        """,
        tmp_path,
        wrap=["unshare", "-m"],
    )
    assert printed == f"{errno.ENOSPC} {tmp_path / 'name'} ['small']\n" * 2 + "100000\n"


@pytest.mark.parametrize("name", ["missing/name", "a-file/name"])
def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path, name):
    (tmp_path / "a-file").touch()
    with pytest.raises(OSError) as caught:
        files.put(str(tmp_path / name.split("/")[0]), "name", [b"x"], True)
    assert caught.value.filename == str(tmp_path / name)


def test_a_directory_in_the_way_is_an_error_that_leaves_nothing(tmp_path):
    (tmp_path / "name").mkdir()
    with pytest.raises(OSError) as caught:
        files.put(str(tmp_path), "name", [b"x"], True)
    assert caught.value.filename == str(tmp_path / "name")
    assert os.listdir(tmp_path) == ["name"]


class Interrupt(BaseException):
    pass


@POSIX
def test_an_interrupt_leaves_nothing(tmp_path):
    def pieces():
        os.kill(os.getpid(), signal.SIGUSR1)
        return [b"abc"] * 3000

    class Pieces:
        def __iter__(self):
            return iter(pieces())

    def interrupt(*_):
        raise Interrupt

    old = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupt):
            files.put(str(tmp_path), "name", Pieces(), True)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert os.listdir(tmp_path) == []


def test_a_temporary_has_a_name_that_no_reader_matches(tmp_path):
    seen = []

    class Pieces:
        def __iter__(self):
            seen.extend(os.listdir(tmp_path))
            return iter([b"x"])

    files.put(str(tmp_path), "name", Pieces(), True)
    (temporary,) = seen
    assert temporary.startswith(".name.")
    assert temporary.endswith(".tmp")


# ---- files that grow


def test_a_file_is_written_from_an_offset_on(tmp_path):
    files.write_at(str(tmp_path), "name", 4, [b"ab", b"cd"], True)
    files.write_at(str(tmp_path), "name", 0, [b"1234"], False)
    files.write_at(str(tmp_path), "name", 6, [b"xyz"], True)
    assert (tmp_path / "name").read_bytes() == b"1234abxyz"
    assert files.read_at(str(tmp_path), "name", 3, 4) == b"4abx"
    with pytest.raises(OSError) as caught:
        files.read_at(str(tmp_path), "name", 3, 7)
    assert caught.value.filename == str(tmp_path / "name")


@POSIX
def test_a_file_that_cannot_grow_is_an_error_that_names_it_and_can_be_written_again(tmp_path):
    printed = run(
        """
        import resource
        files.write_at(sys.argv[1], "name", 0, [b"abc"], True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, resource.RLIM_INFINITY))
        try:
            files.write_at(sys.argv[1], "name", 3, [b"a" * 40_000] * 2, True)
        except OSError as error:
            print(error.errno, error.filename)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        files.write_at(sys.argv[1], "name", 3, [b"b" * 40_000] * 2, True)
        """,
        tmp_path,
    )
    assert printed == f"{errno.EFBIG} {tmp_path / 'name'}\n"
    assert (tmp_path / "name").read_bytes() == b"abc" + b"b" * 80_000


@POSIX
def test_no_link_is_followed_when_a_file_grows(tmp_path):
    (tmp_path / "target").write_bytes(b"abc")
    (tmp_path / "name").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        files.write_at(str(tmp_path), "name", 0, [b"x"], False)
    assert (tmp_path / "target").read_bytes() == b"abc"


# ---- directories


def test_a_listing_is_sorted_and_empty_where_there_is_no_directory(tmp_path):
    for name in ("b", "a", "B", ".x", "10", "9"):
        (tmp_path / name).touch()
    assert files.listing(str(tmp_path)) == sorted([".x", "10", "9", "B", "a", "b"])
    assert files.listing(str(tmp_path / "missing")) == []
    with pytest.raises(OSError):
        files.listing(str(tmp_path / "a"))


def test_syncing_a_directory_that_is_not_there_is_an_error_that_names_it(tmp_path):
    files.sync_directory(str(tmp_path))
    if os.name == "posix":
        with pytest.raises(OSError) as caught:
            files.sync_directory(str(tmp_path / "missing"))
        assert caught.value.filename == str(tmp_path / "missing")


def test_the_total_size_is_that_of_the_files_that_exist(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"defg")
    assert files.total_size(str(tmp_path), ["a", "b", "missing"]) == 7


# ---- reading

READERS = {"read": files.read, "view": files.view, "view without a map": lambda *names: files.view(*names, False)}
every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


@every_reader
@pytest.mark.parametrize("content", [b"", b"abc", bytes(range(256)) * 1000])
def test_a_file_is_read_whole(tmp_path, reader, content):
    (tmp_path / "name").write_bytes(content)
    data = reader(str(tmp_path), "name")
    assert (len(data), bytes(data)) == (len(content), content)
    with pytest.raises(TypeError):
        memoryview(data)[0:1] = b"x"


@every_reader
def test_what_was_read_stays_when_the_file_is_deleted_or_replaced(tmp_path, reader):
    (tmp_path / "name").write_bytes(b"abc" * 10_000)
    data = reader(str(tmp_path), "name")
    files.put(str(tmp_path), "name", [b"other"], False)
    os.unlink(tmp_path / "name")
    assert bytes(data) == b"abc" * 10_000


@every_reader
@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a/b", "../name", "/etc/passwd", "./name", "name/", "na\0me", "\0"]
)
def test_only_bare_names_are_read(tmp_path, reader, name):
    (tmp_path / "name").write_bytes(b"abc")
    with pytest.raises(TraceError, match="not a bare file name"):
        reader(str(tmp_path), name)


@every_reader
def test_a_file_that_is_not_there_is_told_apart(tmp_path, reader):
    with pytest.raises(FileNotFoundError):
        reader(str(tmp_path), "name")
    with pytest.raises(FileNotFoundError):
        reader(str(tmp_path / "missing"), "name")


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the name of a socket is short


def link(path):
    (path.parent / "target").write_bytes(b"abc")
    path.symlink_to("target")


IRREGULAR = {
    "fifo": fifo,
    "socket": unix_socket,
    "directory": os.mkdir,
    "link": link,
    "link to nothing": lambda path: path.symlink_to("missing"),
    "link to itself": lambda path: path.symlink_to(path),
}


@POSIX
@every_reader
@pytest.mark.parametrize("make", IRREGULAR.values(), ids=IRREGULAR)
def test_only_regular_files_are_read_and_nothing_waits(tmp_path, monkeypatch, reader, make):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "name")
    with pytest.raises(TraceError, match=r"^name: cannot be opened.* \(expected a regular file\)"):
        reader(str(tmp_path), "name")


@POSIX
@every_reader
def test_devices_are_not_read(reader):
    with pytest.raises(TraceError, match=r"^zero: cannot be opened \(expected a regular file\)"):
        reader("/dev", "zero")


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    (tmp_path / "name").write_bytes(b"abcd")
    assert files.read(str(tmp_path), "name", 4) == b"abcd"
    with pytest.raises(TraceError, match=r"^name: too large \(expected at most 3 bytes, found 4\)"):
        files.read(str(tmp_path), "name", 3)


@POSIX
def test_a_huge_sparse_file_beyond_the_limit_costs_nothing(tmp_path):
    with open(tmp_path / "name", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TraceError, match="too large"):
        files.read(str(tmp_path), "name", 1 << 30)


@POSIX
@every_reader
def test_refused_files_leave_no_descriptor_open(tmp_path, reader):
    os.mkdir(tmp_path / "name")
    (tmp_path / "good").write_bytes(b"abc")
    before = os.dup(0)
    os.close(before)
    for _ in range(3):
        with pytest.raises(TraceError):
            reader(str(tmp_path), "name")
        reader(str(tmp_path), "good")
    after = os.dup(0)
    os.close(after)
    assert after <= before + 1  # a map may keep one, as long as somebody looks at it
