"""The program `gym-recording`: records environments; says what is in a recording, checks, shows, replays, edits it.

A command is a function from parsed arguments to an exit code. What goes wrong is one line on stderr, no traceback. What
is printed comes from files and is untrusted: it goes through `_say`. The format is not known here.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import threading
import webbrowser
from collections import Counter
from contextlib import suppress
from typing import Any, Callable, Sequence

import numpy as np

from . import __version__, files
from .check import Report, check_recording
from .copying import copy_episodes
from .episode import ENDED_BY
from .errors import TraceError, missing_package
from .format import parse_name
from .info import INFO_KEYS, counted, info_lines, summary
from .merging import merge
from .playback import TraceRecordingReader
from .plot import plot
from .repair import repair_recording
from .replaying import replays
from .spaces import LIBRARIES
from .video import recorded_fps, write_video
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
    except (MemoryError, RecursionError) as error:  # of files that ask for more than there is
        what = "out of memory" if isinstance(error, MemoryError) else "nested too deeply"
        return _fail(f"{args.command}: {what}")
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
        "--port", metavar="N", type=_at_least(0, 65535), default=0, help="of 127.0.0.1; default: any that is free"
    )
    view.add_argument("--no-browser", action="store_true", help="only print the URL")
    view.add_argument("--page", metavar="FILE", help="write the page as one HTML file, which opens folders by itself")
    plot = add("plot", _plot, "draw returns and lengths over the episodes")
    plot.add_argument("directory", metavar="DIRECTORY")
    plot.add_argument("picture", metavar="PICTURE", help="the file to write: out.png, out.pdf, out.svg")
    check = add("check", _check, "check a recording against every rule of the format, checksums included")
    check.add_argument("directory", metavar="DIRECTORY")
    video = add("video", _video, "write the frames of an episode, or observations that are pictures, to a video")
    video.add_argument("directory", metavar="DIRECTORY")
    video.add_argument("output", metavar="OUTPUT", help="replaced if it is there: out.mp4")
    video.add_argument("--episode", metavar="N", type=int, default=0, help="its number; from the end if negative; 0")
    video.add_argument("--fps", metavar="F", type=float, help="pictures a second; as the environment says, else 30")
    video.add_argument("--key", metavar="KEY", help="frames, observations or, of several, observations.image")
    repair = add("repair", _repair, "finish what a writer that died left behind")
    repair.add_argument("directory", metavar="DIRECTORY")
    repair.add_argument(
        "--force", action="store_true", help="also where the writer may be alive: what it records is lost"
    )
    replay = add("replay", _replay, "play the recorded actions in the environment again, and compare what it returns")
    replay.add_argument("directory", metavar="DIRECTORY")
    replay.add_argument("--env", metavar="ID", help="the environment; default: what is recorded of it")
    replay.add_argument(
        "--ignore", metavar="PATH", action="append", default=[], help="not compared: infos.episode.t; may be repeated"
    )
    merge = add("merge", _merge, "copy recordings into one directory")
    merge.add_argument("sources", metavar="SRC", nargs="+", help="directories in which nobody records any more")
    merge.add_argument("destination", metavar="DST", help="created if need be; may hold a recording")
    select = add("select", _select, "copy the episodes that fit all that is asked to a new recording")
    select.add_argument("source", metavar="SRC")
    select.add_argument("destination", metavar="DST", help="where nothing is recorded yet")
    select.add_argument("--episodes", metavar="A:B", type=_slice, help="a slice: 3:10, :5, ::2, 7; --episodes=-3:")
    for what, kind in (("length", int), ("return", float)):
        select.add_argument(f"--min-{what}", metavar="N", type=kind, help=f"the least {what}")
        select.add_argument(f"--max-{what}", metavar="N", type=kind, help=f"the greatest {what}")
    select.add_argument("--ended-by", choices=ENDED_BY, action="append", help="may be repeated")
    select.add_argument("--env", metavar="ID", help="of the environment")
    select.add_argument("--trace", metavar="NAME", help="of the trace")
    select.add_argument(
        "--metadata", metavar="KEY=VALUE", action="append", type=_pair, help="VALUE is JSON, or text; may be repeated"
    )
    return parser


def _slice(text: str) -> slice:
    try:
        parts = [int(part) if part else None for part in text.split(":")]
        found = slice(*parts) if len(parts) > 1 or parts[0] is None else slice(parts[0], parts[0] + 1 or None)
        range(0)[found]  # which refuses a step of 0
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text} is no slice") from None
    return found


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _at_least(least: int, most: float = float("inf")) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        if int(text) > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most}")
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
        try:
            env.close()
        except OSError:
            env.recording._trace.abandon()  # it would be tried again at exit, and reported twice
            raise
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
    except Exception as error:  # whatever constructors raise, and the libraries where an id has two colons
        text = " ".join(str(error).split()) or type(error).__name__
        raise TraceError(f"{library.__name__} cannot make it: {text}", field=env_id) from error


def _progress(episodes: int) -> Any:
    """The numbers of the episodes; on a terminal with a bar, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return range(episodes)
    return tqdm(range(episodes), unit=" episodes", disable=None)


def _info(args: argparse.Namespace) -> int:
    _need(args.directory)
    names = [name for name in files.listing(args.directory) if parse_name(name) is not None]
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


def _plot(args: argparse.Namespace) -> int:
    _need(args.directory)
    with TraceRecordingReader(args.directory, on_error="skip") as reader:
        code = max([_fail(str(error)) for error in reader.errors], default=0)
        plot(reader, args.picture)  # said before: it may be why there is nothing to draw
        return code


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
            threading.Thread(target=webbrowser.open, args=(server.launch_url,), daemon=True).start()
        with suppress(KeyboardInterrupt):  # which is how it is meant to end
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


def _need(directory: str) -> None:
    """Raises the error of the system unless it is a directory that can be listed: a reader takes any path."""
    os.listdir(directory)


def _video(args: argparse.Namespace) -> int:
    _need(args.directory)
    with TraceRecordingReader(args.directory) as reader:
        number = range(len(reader))[args.episode] if -len(reader) <= args.episode < len(reader) else None
        if number is None:
            expected = f"less than {len(reader)}"
            raise TraceError("no such episode", field="--episode", expected=expected, found=str(args.episode))
        fps = recorded_fps(reader.traces, number) if args.fps is None else args.fps
        count, missing = write_video(reader[number], args.output, fps=fps, key=args.key)
    lacking = f", {counted(missing, 'frame')} missing" if missing else ""
    _say(f"wrote {counted(count, 'picture')}{lacking}, {fps:g} a second, to {args.output}")
    return 0


def _repair(args: argparse.Namespace) -> int:
    _need(args.directory)
    found = repair_recording(args.directory, args.force)
    for name, lines in (("done", found.done), ("alive", found.alive), ("lost", found.lost), ("failed", found.failed)):
        for line in lines:
            _say(f"{name}: {line}")
    _say(f"repaired: {counted(len(found.done), 'change')}, {counted(len(found.lost), 'loss', 'es')}")
    return 1 if found.failed else 3 if found.lost else 0


def _replay(args: argparse.Namespace) -> int:
    _need(args.directory)
    verdicts = Counter({"equal": 0, "different": 0, "unproven": 0})
    with TraceRecordingReader(args.directory, on_error="skip") as reader:
        for episode in replays(reader, args.env, ignore=args.ignore):
            verdicts[episode.verdict] += 1
            if episode.verdict != "equal":
                _say(str(episode))
        for error in reader.errors:
            _fail(str(error))
    total = sum(verdicts.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    _say(f"replayed {counted(total, 'episode')}: {counts}")
    return 0 if total and verdicts["equal"] == total and not reader.errors else 1


def _merge(args: argparse.Namespace) -> int:
    merged = merge(args.sources, args.destination)
    for old, new in merged.renamed.items():
        _say(f"renamed: {old} is {new}")
    traces = counted(len(merged.copied), "trace")
    _say(f"merged {traces} into {args.destination}" + (f", {len(merged.present)} were there" if merged.present else ""))
    return 0


def _select(args: argparse.Namespace) -> int:
    _need(args.source)
    names = ("min_length", "max_length", "min_return", "max_return", "ended_by", "env", "trace")
    asked = {name: getattr(args, name) for name in names}
    with TraceRecordingReader(args.source, verify=True) as reader:
        view = reader.select(args.episodes, metadata=dict(args.metadata) if args.metadata else None, **asked)
        copied = copy_episodes(view, args.destination)
        total = len(reader)
    for number in copied.running:
        _say(f"left out: episode {number}, which has not ended; if its recorder died, repair it first")
    if not copied.episodes:
        return _fail(f"none of {counted(total, 'episode')} fits and has ended; nothing was written")
    _say(f"selected {copied.episodes} of {counted(total, 'episode')} into {args.destination}")
    return 0
