"""The program `gym-recording`: records an environment, says what is in a recording, shows, checks and repairs one.

A command is a function from parsed arguments to an exit code. What goes wrong is one line on stderr, no traceback. What
is printed comes from files and is untrusted: it goes through `_say`. The format is not known here.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import json
import os
import sys
import threading
import webbrowser
from typing import Any, Callable, Sequence

import numpy as np

from . import __version__, files
from .check import Report, check_recording
from .errors import TraceError, missing_package
from .format import parse_name
from .info import INFO_KEYS, counted, info_lines, summary
from .playback import TraceRecordingReader
from .repair import repair_recording
from .spaces import LIBRARIES
from .viewer import RecordingServer, whole_page
from .wrappers import TraceRecordingWrapper
from .wrappers.api import make_arguments, reset, seed_samples, split_step

_EXIT_CODES = """\
exit codes:
  0    all is well
  1    something failed, or problems were found
  2    wrong usage
  3    repair: recovered, but something was lost
  130  interrupted; what was recorded is kept
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default the arguments of the process, and returns its exit code.

    Raises:
        SystemExit: of argparse: wrong usage, `--help`, `--version`.
    """
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read stdout has seen enough; Python must not complain at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TraceError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else str(error))


def _parser() -> argparse.ArgumentParser:
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": _EXIT_CODES}
    parser = argparse.ArgumentParser("gym-recording", description="Records environments, looks at recordings.", **style)
    parser.add_argument("--version", action="version", version=f"gym-recording {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=f"{text.capitalize()}.", **{**style, **more})
        command.set_defaults(run=run)
        return command

    record = add("record", _record, "record episodes of an environment, with random actions")
    record.add_argument("env_id", metavar="ENV_ID", help="what the library's make takes: CartPole-v1")
    record.add_argument("directory", metavar="DIRECTORY", help="where to; created if need be")
    record.add_argument("--episodes", metavar="N", type=_at_least(1), required=True, help="how many")
    record.add_argument("--seed", metavar="S", type=_at_least(0), help="of the actions; reset number i gets S + i")
    record.add_argument("--library", choices=LIBRARIES, help="default: gymnasium if it is installed, else gym")
    info = add("info", _info, "say what is in a recording", epilog=f"{INFO_KEYS}\n{_EXIT_CODES}")
    info.add_argument("directory", metavar="DIRECTORY")
    info.add_argument("--json", action="store_true", help="as one JSON object")
    view = add("view", _view, "show a recording in the browser")
    view.add_argument("directory", metavar="DIRECTORY", nargs="?")
    view.add_argument(
        "--port", metavar="N", type=_at_least(0), default=0, help="of 127.0.0.1; default: any that is free"
    )
    view.add_argument("--no-browser", action="store_true", help="only print the URL")
    view.add_argument("--page", metavar="FILE", help="write the page as one HTML file, which opens folders by itself")
    check = add("check", _check, "check a recording against every rule of the format, checksums included")
    check.add_argument("directory", metavar="DIRECTORY")
    repair = add("repair", _repair, "finish what a writer that died left behind")
    repair.add_argument("directory", metavar="DIRECTORY")
    repair.add_argument(
        "--force", action="store_true", help="also where the writer may be alive: what it records is lost"
    )
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return number


def _say(text: str, stream: Any = None) -> None:
    """Prints one line; what is not printable in it, or not in the stream's encoding, is escaped."""
    stream = stream or sys.stdout
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _fail(text: str) -> int:
    _say(f"gym-recording: {text}", sys.stderr)
    return 1


def _record(args: argparse.Namespace) -> int:
    env = TraceRecordingWrapper(_make(_library(args.library), args.env_id), args.directory)
    steps, interrupted = 0, False
    try:
        if args.seed is not None:
            seed_samples(env.action_space, args.seed)
        for number in _progress(args.episodes):
            reset(env, args.seed if args.seed is None else args.seed + number)
            ended = False
            while not ended:
                _, _, terminated, truncated, _ = split_step(env.step(env.action_space.sample()))
                steps += 1
                ended = terminated or truncated
    except KeyboardInterrupt:
        interrupted = True
    finally:
        env.close()
    episodes = counted(sum(batch["len"] for batch in env.recording.batches), "episode")
    what = f"interrupted: kept {episodes}" if interrupted else f"recorded {episodes}, {counted(steps, 'step')},"
    _say(f"{what} of {args.env_id} in {args.directory}")
    return 130 if interrupted else 0


def _library(name: str | None) -> Any:
    name = name or next(filter(importlib.util.find_spec, LIBRARIES), "gym")
    if importlib.util.find_spec(name) is None:
        raise missing_package(name, "record", "'gym_recording[gymnasium]'" if name == "gymnasium" else name)
    return importlib.import_module(name)


def _make(library: Any, env_id: str) -> Any:
    try:
        return library.make(env_id, **make_arguments(library))
    except (library.error.Error, ImportError) as error:
        raise TraceError(f"{library.__name__} cannot make it: {' '.join(str(error).split())}", field=env_id) from error


def _progress(episodes: int) -> Any:
    """The numbers of the episodes; on a terminal with a bar, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return range(episodes)
    return tqdm(range(episodes), unit=" episodes", disable=None)


def _info(args: argparse.Namespace) -> int:
    names = [name for name in os.listdir(args.directory) if parse_name(name) is not None]
    with TraceRecordingReader(args.directory, on_error="skip") as reader, np.errstate(all="ignore"):
        info = summary(reader)
        info.update(
            bytes=files.total_size(args.directory, names), files=len(names), errors=list(map(str, reader.errors))
        )
    if args.json:
        print(json.dumps(info, indent=2, allow_nan=False))
    else:
        for line in info_lines(info):
            _say(line)
        for error in info["errors"]:
            _fail(error)
    return 1 if info["errors"] else 0


def _view(args: argparse.Namespace) -> int:
    if (args.directory is None) == (args.page is None):
        _fail("view: give either DIRECTORY or --page FILE")
        return 2
    if args.page is not None:
        files.put(*os.path.split(args.page), [whole_page().encode()], sync=False)
        _say(f"wrote {args.page}")
        return 0
    with RecordingServer(args.directory, args.port) as server:
        _say(server.url)
        sys.stdout.flush()
        if not args.no_browser:  # in a thread: one for the terminal does not return before it is closed
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        server.serve_forever()
    return 0


def _check(args: argparse.Namespace) -> int:
    report = Report()
    problems = check_recording(args.directory, report)
    for line in [*map(str, problems), *[f"note: {note}" for note in report.notes]]:
        _say(line)
    counts = (
        counted(report.traces, "trace"),
        counted(report.batches, "batch", "es"),
        counted(report.episodes, "episode"),
    )
    _say(f"checked {', '.join(counts)}: {counted(len(problems), 'problem')}")
    return 1 if problems else 0


def _repair(args: argparse.Namespace) -> int:
    if not os.path.isdir(args.directory):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args.directory)
    found = repair_recording(args.directory, args.force)
    for name, lines in (("done", found.done), ("alive", found.alive), ("lost", found.lost), ("failed", found.failed)):
        for line in lines:
            _say(f"{name}: {line}")
    _say(f"repaired: {counted(len(found.done), 'change')}, {counted(len(found.lost), 'loss', 'es')}")
    return 1 if found.failed else 3 if found.lost else 0
