"""A step is recorded whole or not at all, an episode once: whatever interrupts, and wherever it does."""

import gc
import itertools
import linecache
import os
import sys
import warnings
from functools import lru_cache, partial

import numpy as np
import pytest
from environments import LIBRARIES, VALUES, Convertible, Walk, make, same, same_rows

import gym_recording
from gym_recording import ClosedError, TraceError, TraceRecording, TraceRecordingReader, TraceRecordingWrapper
from gym_recording.lane import Lane

PACKAGE = os.path.dirname(gym_recording.__file__) + os.sep


@lru_cache(maxsize=None)
def is_with(file, line):
    """Whether it is that of a `with`, which is visited again before `__exit__`: Python takes no signal in between."""
    return linecache.getline(file, line).lstrip().startswith("with ")


def interrupt():
    raise KeyboardInterrupt


def interrupted(function, number, event="line", but=(), only=None, by=interrupt):
    """Calls a function, and `by` before the number-th line, or opcode, that it runs in the package.

    Gives whether it ran that far. Only the modules in `only` are looked at, or all but those in `but`.
    """
    left = number

    def in_package(frame, found, _):
        nonlocal left
        if found == event and (event != "line" or not is_with(frame.f_code.co_filename, frame.f_lineno)):
            left -= 1
        if left == 0:
            left = -1  # once
            by()
        return in_package

    def tracer(frame, found, _):
        file = frame.f_code.co_filename
        module = os.path.basename(file)
        if not file.startswith(PACKAGE) or module in but or module not in (only or module):
            return None
        frame.f_trace_opcodes = event == "opcode"
        return in_package

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # a finalizer that is interrupted swallows it
    sys.settrace(tracer)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    assert left > 0 or by is not interrupt, "the interrupt was swallowed"
    return left <= 0


def every_interruption(*arguments, **options):
    """Gives `attempt(function)`, each interrupting one line later, until nothing is left to interrupt."""
    went_on = True

    def attempt(function):
        nonlocal went_on
        went_on = interrupted(function, number, *arguments, **options)

    for number in itertools.count(1):
        yield attempt
        if not went_on:
            assert number > 3, "nothing was interrupted"
            return


# ---- the lane alone


def frame_of(n):
    """The frame of step n: none for every fifth, a large one for every third."""
    return None if n % 5 == 4 else np.full((60, 60, 3) if n % 3 == 2 else (2, 3), n, "uint8")


class Recorded:
    """A lane and what it handed over. Step n brings `value(n)` everywhere; step `odd` has the flag `terminated`."""

    def __init__(self, value, odd=None):
        self.value, self.odd = value, odd
        self.episodes = []
        self.now = 0.0
        self.lane = Lane(lambda: self.episodes, infos=True, frames=True, clock=lambda: self.now)

    def begin(self, n):
        self.lane.begin(self.value(n))

    def finish(self, n):
        self.now = float(n)
        info = {"n": self.value(n), **({"odd": n} if n == self.odd else {})}
        self.lane.finish(self.value(n), self.value(n), n == self.odd, False, info, frame_of(n))

    def episode(self, *steps, reset=True):
        if reset:
            self.lane.reset(self.value(0), info={"n": self.value(0)}, frame=frame_of(0))
        for n in steps:
            self.begin(n)
            self.finish(n)

    def end(self):
        """Ends the episode and gives it, with arrays that are in pieces joined."""
        self.lane.end("close")
        return {key: joined(value) for key, value in self.episodes[-1].items()}


def joined(value):
    if isinstance(value, dict):
        return {key: joined(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(joined, value))
    return np.asarray(value) if hasattr(value, "pieces") else value


def without_gaps(episode):
    return {key: value for key, value in episode.items() if key != "gaps"}


@pytest.mark.parametrize("before", [(), (0, 1)], ids=["first step", "third step"])
@pytest.mark.parametrize("name", VALUES)
def test_an_interrupted_step_is_recorded_whole_or_not_at_all(name, before):
    def recorded(*steps):
        recorded = Recorded(VALUES[name], odd=2)
        recorded.episode(0)  # an episode before, whose kinds are guesses for this one
        recorded.end()
        recorded.episode(*steps)
        return recorded

    whole, nothing = recorded(*before, 2, 3).end(), recorded(*before, 3).end()
    for half in ("begin", "finish"):
        for attempt in every_interruption():
            found = recorded(*before)
            if half == "finish":
                found.begin(2)
            attempt(partial(getattr(found, half), 2))
            found.episode(3, reset=False)
            episode = found.end()
            assert len(found.episodes) == 2
            gaps = episode.get("gaps", [])
            if len(episode["timestamps"]) == len(whole["timestamps"]):
                assert same(without_gaps(episode), whole)
                assert gaps in ([], [len(before) + 1])
            else:
                assert same(without_gaps(episode), nothing)
                assert gaps == [len(before)] or (half == "begin" and gaps == [])


@pytest.mark.parametrize("odd", [1, 2])
def test_the_flags_are_those_of_the_last_recorded_step(odd):
    for attempt in every_interruption("opcode"):
        recorded = Recorded(VALUES["ints"], odd)
        recorded.episode(0, 1)
        recorded.begin(2)
        attempt(partial(recorded.finish, 2))
        episode = recorded.end()
        last = len(episode["rewards"]) - 1
        assert (episode["terminated"], episode["ended_by"]) == (last == odd, "terminated" if last == odd else "close")
        assert all(gap <= last for gap in episode.get("gaps", []))
        frames = {row: frame for one in episode["frames"] for row, frame in zip(one["rows"].tolist(), one["values"])}
        assert same([frames[row] for row in sorted(frames)], [frame_of(n) for n in (0, 0, 1, 2)[: last + 2]])


@pytest.mark.parametrize("name", ["ints", "large arrays", "dicts", "another key"])
def test_an_interrupted_reset_is_recorded_whole_or_not_at_all(name):
    def recorded(first):
        recorded = Recorded(VALUES[name])
        recorded.episode(0, 1, 2)
        recorded.end()
        if first:
            recorded.lane.reset(recorded.value(2), 5, {"an": "option"}, {"n": 2}, frame=frame_of(2))
        return recorded

    def after(recorded):
        recorded.episode(3, 4, reset=False)
        episode = recorded.end()
        return {key: episode[key] for key in ("observations", "actions", "rewards", "infos", "frames", "timestamps")}

    whole, headless = after(recorded(True)), after(recorded(False))
    for attempt in every_interruption():
        found = recorded(False)
        attempt(partial(found.lane.reset, found.value(2), 5, {"an": "option"}, {"n": 2}, frame=frame_of(2)))
        episode = after(found)
        assert same(episode, headless if found.episodes[-1].get("headless") else whole)
        assert len(found.episodes) == 2


@pytest.mark.parametrize("name", VALUES)
def test_an_interrupted_end_hands_the_episode_over_once(name):
    expected = Recorded(VALUES[name], odd=2)
    expected.episode(0, 1, 2)
    expected.end()
    expected.episode(3, 4)
    expected.end()
    for attempt in every_interruption():
        found = Recorded(VALUES[name], odd=2)
        found.episode(0, 1, 2)
        attempt(partial(found.lane.end, "close"))
        found.lane.end("close")
        found.episode(3, 4)
        found.end()
        assert same(list(map(joined, found.episodes)), list(map(joined, expected.episodes)))


def test_after_an_interrupted_end_the_steps_go_on():
    for attempt in every_interruption():
        found = Recorded(VALUES["dicts"])
        found.episode(0, 1)
        attempt(partial(found.lane.end, "reset"))
        found.episode(2, 3, reset=False)
        found.end()
        assert [n for episode in found.episodes for n in episode["actions"]["a"].tolist()] == [0, 1, 2, 3]
        for episode in found.episodes:
            rows = len(episode["rewards"]["a"]) + (not episode.get("headless"))
            assert len(episode["observations"]["a"]) == rows


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine"), MemoryError()])
@pytest.mark.parametrize(
    "place",
    [
        lambda bad: {"action": bad},
        lambda bad: {"action": {"a": 1, "b": bad}},
        lambda bad: {"observation": bad},
        lambda bad: {"observation": {"a": 1, "b": (2, bad)}},
        lambda bad: {"observation": {"a": 1, "b": [bad]}},
        lambda bad: {"reward": bad},
        lambda bad: {"observation": {"new": 1, "b": bad}, "action": {"new": 1}},
    ],
)
def test_a_value_whose_conversion_raises_leaves_nothing_half_recorded(place, error):
    def step(n, **others):
        good = {"action": {"a": n, "b": n}, "observation": {"a": n, "b": (n, n)}, "reward": n}
        return list({**good, **others}.values())

    def recorded(*steps):
        episodes = []
        lane = Lane(lambda: episodes)
        lane.reset(step(0)[1])
        for action, *result in steps:
            try:
                lane.begin(action)
                lane.finish(*result, False, False)
            except (KeyboardInterrupt, TraceError):
                assert lane.steps == 2
        lane.end("close")
        return episodes

    (found,) = recorded(step(1), step(2), step(3, **place(Convertible(error))), step(4))
    (expected,) = recorded(step(1), step(2), step(4))
    assert found.pop("gaps") == [2]
    assert same(found, expected)


def test_an_info_whose_conversion_is_interrupted_leaves_no_step():
    recorded = Recorded(VALUES["ints"])
    recorded.episode(0)
    recorded.begin(1)
    with pytest.raises(KeyboardInterrupt):
        recorded.lane.finish(1, 1, False, False, {"n": 1, "new": 2, "bad": Convertible(KeyboardInterrupt())})
    recorded.episode(2, reset=False)
    episode = recorded.end()
    assert episode["rewards"].tolist() == [0, 2]
    assert list(episode["infos"]) == ["n"]
    assert episode["infos"]["n"]["rows"].tolist() == [0, 1, 2]


def test_a_warning_that_is_an_error_leaves_nothing_half_recorded():
    recorded = Recorded(VALUES["ints"])
    recorded.episode(0)
    recorded.begin(1)
    with warnings.catch_warnings(), pytest.raises(UserWarning):
        warnings.simplefilter("error")
        recorded.lane.finish(1, 1, False, False, {"n": 1, "bad": object()})
    recorded.episode(2, reset=False)
    episode = recorded.end()
    assert (episode["rewards"].tolist(), episode["gaps"]) == ([0, 2], [1])


def test_the_kinds_of_an_episode_are_not_those_of_the_one_before_even_after_a_failure():
    episodes = []
    lane = Lane(lambda: episodes)
    for first in ("a", "b"):
        other = {"a": "b", "b": "a"}[first]
        lane.reset(0)
        with pytest.raises(TraceError):
            lane.begin({first: 1, other: object()})
        lane.begin({first: 1, other: 2})
        lane.finish(1, 1.0, False, False)
        lane.end("reset")
    assert [list(episode["actions"]) for episode in episodes] == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize("what", ["close", "end", "forget"])
def test_a_step_during_which_the_episode_went_away_is_dropped(what):
    recorded = Recorded(VALUES["ints"])
    recorded.episode(0)
    recorded.begin(1)
    if what != "forget":
        recorded.lane.end("close")
    if what != "end":
        getattr(recorded.lane, what)()
    recorded.finish(1)
    if what == "close":
        with pytest.raises(ClosedError):
            recorded.begin(2)
        assert [episode["rewards"].tolist() for episode in recorded.episodes] == [[0]]
        return
    recorded.episode(2, reset=False)
    episode = recorded.end()
    assert episode["rewards"].tolist() == episode["actions"].tolist() == episode["observations"].tolist() == [2]
    assert episode["headless"] is True


def test_a_closed_lane_stays_closed_when_it_is_told_to_forget():
    recorded = Recorded(VALUES["ints"])
    recorded.lane.close()
    recorded.lane.forget()  # as in a child after a fork
    with pytest.raises(ClosedError):
        recorded.begin(0)


# ---- the recorder, with its files


STATELESS = (
    "batch.py",
    "layout.py",
    "format.py",
    "values.py",
)  # functions of what they are given; interrupts do no harm


class Numbered:
    """A recorder whose steps are numbered; every one that went in must come out once."""

    def __init__(self, directory, options):
        self.recording = TraceRecording(directory, durability="none", infos=True, frames=True, **options)
        self.count = 0

    def step(self):
        n = self.count
        self.count += 1
        self.recording.add_step({"n": n, "text": str(n)}, np.full(2, n), float(n), info={"n": n}, frame=frame_of(n))

    def reset(self):
        self.recording.add_reset(np.full(2, -1))


def numbers_in(directory):
    """The numbers of the recorded steps, in order; what was recorded with them fits."""
    numbers = []
    for episode in TraceRecordingReader(directory, verify=True):
        if len(episode):
            n = episode.actions["n"]
            assert same_rows(episode.actions["text"], [str(i) for i in n])
            assert same(episode.observations[len(episode.observations) - len(n) :], np.stack([n, n], axis=-1))
            assert same(episode.rewards, n.astype("float64"))
            assert [info["n"] for info in episode.infos if info] == n.tolist()
            frames = list(episode.frames)[len(episode.frames) - len(n) :]
            assert all(same(frame, frame_of(i)) for frame, i in zip(frames, n.tolist()))
            numbers += n.tolist()
    return numbers


STREAMED, EACH, LATER = {"flush_interval": 0}, {"buffer_batch_size": 1}, {"buffer_batch_size": 99}


@pytest.mark.parametrize(
    ("options", "method", "then"),
    [
        (STREAMED, "step", "step"),
        (STREAMED, "reset", "reset"),
        (STREAMED, "end_episode", "save_complete"),
        (STREAMED, "close", "close"),
        (EACH, "reset", "reset"),
        (EACH, "end_episode", "save_complete"),
        (EACH, "close", "close"),
        (LATER, "step", "save_complete"),
        (LATER, "reset", "step"),
        (LATER, "end_episode", "save_complete"),
        (LATER, "save_complete", "save_complete"),
        (LATER, "close", "step"),
    ],
    ids=lambda value: value if isinstance(value, str) else "{}={}".format(*next(iter(value.items()))),
)
def test_whatever_is_interrupted_nothing_is_lost_and_nothing_twice(tmp_path, options, method, then):
    for round_, attempt in enumerate(every_interruption(but=STATELESS)):
        directory = tmp_path / str(round_)
        numbered = Numbered(directory, options)
        calls = {"step": numbered.step, "reset": numbered.reset}
        for name in ("end_episode", "save_complete", "close"):
            calls[name] = getattr(numbered.recording, name)
        for name in ("reset", "step"):
            calls[name]()
        attempt(calls[method])
        try:
            calls[then]()
            calls["step"]()
        except ClosedError:
            assert method == "close" or then == "close"
            numbered.count -= 1
        numbered.recording.close()
        numbers = numbers_in(directory)
        doubtful = [1] if method == "step" else []  # that step came to nothing, or was recorded
        assert numbers in (list(range(numbered.count)), [n for n in range(numbered.count) if n not in doubtful])


@pytest.mark.parametrize("when", ["opened", "closed"])
def test_a_recorder_that_is_collected_while_another_is_opened_or_closed_leaves_its_lock_alone(tmp_path, when):
    """The garbage collector may run anywhere, and closes recorders that are in reference cycles."""

    def locks():
        return [path for path in os.listdir(directory) if path.endswith(".lock")]

    def new():
        recording = TraceRecording(directory, durability="none")
        recording.add_step(1, 2.0, 3.0)
        return recording

    opened = []
    gc.collect()
    gc.freeze()  # what there is by now; collections are quick then
    gc.disable()
    try:
        for round_, attempt in enumerate(every_interruption(only=["lock.py"], by=gc.collect)):
            directory = tmp_path / str(round_)
            gone = new()
            gone.itself = gone
            if when == "opened":
                del gone
                attempt(lambda: opened.append(new()))
                assert len(locks()) == 1
                opened.pop().close()
            else:
                recording = new()
                del gone
                attempt(recording.close)
            gc.collect()
            assert locks() == []
            assert len(TraceRecordingReader(directory)) == 2
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("method", ["step", "reset"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_run_that_goes_on_after_an_interrupt_holds_true_transitions_only(tmp_path, library, method):
    library = pytest.importorskip(library)
    for round_, attempt in enumerate(every_interruption(but=STATELESS)):
        env = TraceRecordingWrapper(make(library, Walk, 99), tmp_path / str(round_), durability="none")
        env.reset()
        env.step(0)
        env.step(1)
        attempt(partial(env.step, 2) if method == "step" else env.reset)
        env.step(3)
        env.step(0)
        env.reset()
        env.step(1)
        env.close()
        recorded = []
        for episode in TraceRecordingReader(env.directory):
            recorded += episode.actions.tolist()
            shift = int(episode.headless)
            for t in set(range(shift, len(episode))) - set(episode.gaps):
                before, after = episode.observations[t - shift : t - shift + 2]
                assert same(after, Walk.after(before, episode.actions[t]))
        assert recorded in ([0, 1, 3, 0, 1], [0, 1, 2, 3, 0, 1])
