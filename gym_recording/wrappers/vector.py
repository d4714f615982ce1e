"""`TraceRecordingVectorWrapper`: records a vector environment, a lane for each sub-environment.

A step has two halves for all lanes, as for one: the actions are copied before it, the rest after. What each lane then
records is decided by the flags and by when its sub-environment is reset, which `autoreset` knows. A vector step that
fails, or is interrupted before all lanes have recorded it, ends the episodes of the others: nobody knows their state.
"""

from __future__ import annotations

import time
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..environment import describe
from ..errors import TraceError
from ..memory import Place
from ..recording import TraceRecording
from .adopted import Adopted
from .api import TRUNCATED, holds_vector, library_version, refuse_lanes, reset_gives_info
from .autoreset import (
    DISABLED,
    FINAL_INFO,
    FINAL_KEYS,
    NEXT_STEP,
    SAME_STEP,
    STATISTICS,
    UNSAID,
    WRAPPERS,
    base_of,
    check_renders,
    conclude,
    facts_of,
    final_observation,
    one_of,
    package_of,
    seeds_of,
    vector_library_of,
    warn_of_last_steps,
)
from .lanes import GONE, LaneInfos, flags_of, frames_of, rows_of

__all__ = ["TraceRecordingVectorWrapper"]


class TraceRecordingVectorWrapper(Adopted):
    """Records every sub-environment of a vector environment, and passes everything on unchanged.

    Episodes are those that each sub-environment would give alone: with its true last observation, and without the step
    that is only a reset. `Episode.lane` says whose an episode is. All lanes share one trace. Else as
    `TraceRecordingWrapper`.

    Args:
        envs: a vector environment of gymnasium, gym (0.21 and later) or Stable-Baselines3; the wrapper is a wrapper of
            that library.
        directory: where to; created if need be. None: a new temporary directory, see the attribute.
        kwargs: as for `TraceRecording`: `infos`, `timestamps`, `metadata`, `durability`, `buffer_batch_size` and so on.

    Attributes:
        directory: str, absolute.
        recording: the `TraceRecording`, which has `lanes`.

    Raises:
        TraceError: no vector environment, or an argument is wrong.
        OSError: nothing can be written to the directory.
    """

    recording: TraceRecording

    def __init__(self, envs: Any, directory: Place | None = None, **kwargs: Any) -> None:
        self._adopt(envs)
        refuse_lanes(kwargs)
        super().__init__(envs)  # type: ignore[call-arg]  # the library's wrapper comes next
        library = package_of(self._library)
        self._inner = envs
        self._count = count = int(envs.num_envs)
        self._facts = facts_of(envs, library)
        if kwargs.get("frames"):
            check_renders(envs, library, self._facts)
        self._autoreset = self._facts.autoreset
        self._due = [False] * count  # whether the next step is a reset
        self._is_open = False  # a step was begun, and not all lanes have recorded it
        self._result: Any = None  # what that step returned, if it has
        self._seeds_to_come: Any = None  # of `seed`, for the next reset
        self._reset_arguments: dict[str, Any] = {}  # of `reset_async`
        self._warned = False
        env = describe(one_of(envs, self._space("observation_space"), self._space("action_space")))
        self.recording = TraceRecording(
            directory, **{"env": env, "library": library_version(library), "lanes": count, **kwargs}
        )
        self.directory = self.recording.directory

    def step(self, actions: Any) -> Any:
        """Steps all sub-environments, records the steps, returns what the vector environment returned.

        Raises:
            ClosedError: the recorder is closed; nothing was stepped.
            TraceError: a value of a lane cannot be stored; all other lanes have recorded the step.
            OSError: a flush was due and failed; nothing recorded is lost.
        """
        actions = self._begin(actions)
        self._result = self._inner.step(actions)  # at once, so that no interrupt comes between
        return self._finish()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Resets the sub-environments, which begins episodes, returns what the vector environment returned.

        With `options={"reset_mask": ...}`, those that it selects.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        plan = self._begin_reset(kwargs)
        result, self._due = self._inner.reset(*args, **kwargs), plan.due  # at once, as in `step`
        return self._finish_reset(result, plan)

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Writes everything and closes the vector environment.

        Raises:
            OSError: not everything could be written. The environment is closed all the same; the data is kept, and
                closing again tries again.
        """
        try:
            if "recording" in self.__dict__:
                self.recording.close()
        finally:
            self._inner.close(*args, **kwargs)

    # ---- a step

    def _begin(self, actions: Any) -> Any:
        """Copies the actions; gives them back, because an iterator can be read only once."""
        if isinstance(actions, Iterator):
            actions = list(actions)
        self._recover()
        recording = self.recording
        lanes = recording.lanes
        if recording.closed:
            recording.lane.recover()  # which raises
        space = self._space("action_space") if self._facts.by_column else None
        rows = rows_of(actions, space, self._count, "actions")
        begun = 0
        try:
            for lane, action, due in zip(lanes, rows, self._due):
                begun += 1
                if not due:
                    lane.begin(action)
        except TraceError:
            for lane, due in zip(lanes[:begun], self._due):
                if not due:
                    lane.take_back()
            raise
        self._is_open = True
        return actions

    def _recover(self) -> None:
        """Ends the episodes of lanes that have not recorded a step which was begun: it failed, or was interrupted."""
        if not self._is_open:
            return
        ended = [False] * self._count if self._result is None else self._flags()[2]
        for lane, is_over in zip(self.recording.lanes, ended):
            # Also if it is recorded, and only that its episode is over is not.
            if not lane.closed and (lane.dirty or (is_over and lane.steps and self._autoreset != DISABLED)):
                self.recording.end(lane)
        self._close_step(ended)

    def _close_step(self, ended: list[bool]) -> None:
        """All is done for a step by which these episodes have ended. If this is interrupted, it is done anew."""
        if self._result is not None:
            self._due = ended if self._autoreset == NEXT_STEP else [False] * self._count
        self._result = None
        self._is_open = False

    def _flags(self) -> tuple[list[Any], list[Any], list[bool]]:
        """Of the step that has returned, for each lane: terminated, truncated, and whether its episode has ended."""
        count, (_, _, *flags, infos) = self._count, self._result
        terminated = flags_of(flags[0], count)
        truncated = flags_of(flags[1], count) if len(flags) == 2 else [False] * count
        ended = [bool(one or other) for one, other in zip(terminated, truncated)]
        if self._facts.autoreset == UNSAID and self._autoreset != SAME_STEP and any(ended):
            each = LaneInfos(infos, count)
            self._autoreset = conclude(self._autoreset, [each[number] for number in range(count) if ended[number]])
        return terminated, truncated, ended

    def _finish(self) -> Any:
        """Records what the step begun led to."""
        recording, count, result = self.recording, self._count, self._result
        if recording.closed:
            return result
        try:
            observations, rewards, *_, infos = result
            terminated, truncated, ended = self._flags()
        except (TypeError, ValueError, IndexError) as error:
            self._result = None
            expected = f"4 or 5 values for {count} lanes"
            raise TraceError("not what it returns", field="step", expected=expected, found=repr(result)[:80]) from error
        due, keeps_infos = self._due, recording.lane.infos is not None
        each: Any = LaneInfos(infos, count) if keeps_infos or any(ended) else None
        rows = rows_of(observations, self._space("observation_space"), count, "observations")
        gains = rows_of(rewards, None, count, "rewards")
        frames = frames_of(self._inner, count, recording.lane.frames is not None)
        large, failed = [], None
        for number, lane in enumerate(recording.lanes):
            info: Any = each[number] if keeps_infos or ended[number] else None
            step = rows[number], gains[number], terminated[number], truncated[number]
            try:
                if due[number]:
                    recording.begin(lane, rows[number], info=info, frame=frames[number])
                elif not ended[number]:
                    lane.finish(*step, self._own(info) if keeps_infos else None, frames[number])
                else:
                    if len(result) == 4 and info.get(TRUNCATED, False):
                        step = *step[:2], False, True
                    self._finish_last(number, step, info, frames[number])
            except TraceError as error:  # the other lanes do not lose their step for that
                failed = failed or error
            if lane.steps >= lane.watch:
                large.append(lane)
        self._close_step(ended)
        if large or any(ended) or time.monotonic() >= recording.deadline:
            recording.flush_if_due(*large)
        if failed is not None:
            raise failed
        return result

    def _own(self, info: Any) -> Any:
        """What the sub-environment itself gave, of the info of a step that ended no episode."""
        if self._facts.adds_truncated and TRUNCATED in info:
            return {key: value for key, value in info.items() if key != TRUNCATED}
        return info

    def _finish_last(self, number: int, step: tuple[Any, Any, Any, Any], info: Any, frame: Any) -> None:
        """The last step of an episode, with what `Lane.finish` takes, and the reset that comes with it."""
        recording = self.recording
        lane, info, failed = recording.lanes[number], self._own(info), None
        if self._autoreset == SAME_STEP:
            own = {key: value for key, value in info.items() if key not in FINAL_KEYS}
            final = info.get(FINAL_INFO, own)
            if final is not own and STATISTICS in own:
                final = {STATISTICS: own.pop(STATISTICS), **final}
            last = final_observation(info)
            try:
                if last is None:
                    self._warned = self._warned or warn_of_last_steps()  # and what was begun is cut back
                else:
                    lane.finish(last, *step[1:], final, GONE)
            except TraceError as error:  # the episode is over all the same
                failed = error
            info = own if FINAL_INFO in info else self._reset_infos()[number]
            recording.begin(lane, step[0], info=info, frame=frame)
        else:
            try:
                lane.finish(*step, info, frame)
            except TraceError as error:
                failed = error
            if self._autoreset == NEXT_STEP:
                recording.end(lane)
        if failed is not None:
            raise failed

    # ---- a reset

    def _begin_reset(self, arguments: Mapping[str, Any]) -> _Reset:
        """Ends the episodes that a reset with these arguments ends."""
        self._recover()
        count, options = self._count, arguments.get("options")
        chosen = [True] * count
        if self._facts.masks and isinstance(options, Mapping) and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])  # now: the vector environment takes it out
            options = {key: value for key, value in options.items() if key != "reset_mask"}
            if mask.shape == (count,):  # else it refuses
                chosen = mask.tolist()
        base = base_of(self._inner)
        if self._facts.by_attribute:
            seeds, several = base._seeds, [given or None for given in base._options]
        else:
            seed, self._seeds_to_come = arguments.get("seed", self._seeds_to_come), None
            seeds, several = seeds_of(base, seed, count), [options] * count
        for lane, is_reset in zip(self.recording.lanes, chosen):
            if is_reset:
                self.recording.end(lane)
        gives_info = not self._facts.by_attribute and reset_gives_info(package_of(self._library), arguments)
        keeps = self._facts.keeps_plans
        due = [is_due and (keeps or not is_reset) for is_due, is_reset in zip(self._due, chosen)]
        return _Reset(chosen, seeds, several, gives_info, due)

    def _finish_reset(self, result: Any, plan: _Reset) -> Any:
        """Records the first observations."""
        recording, count = self.recording, self._count
        is_pair = plan.gives_info and isinstance(result, tuple) and len(result) == 2
        observations, infos = result if is_pair else (result, self._reset_infos())
        rows = rows_of(observations, self._space("observation_space"), count, "observations")
        frames = frames_of(self._inner, count, recording.lane.frames is not None)
        each, failed = LaneInfos(infos, count), None
        for number, lane in enumerate(recording.lanes):
            if plan.chosen[number]:
                try:
                    given = {"seed": plan.seeds[number], "options": plan.options[number], "info": each[number]}
                    recording.begin(lane, rows[number], **given, frame=frames[number])
                except TraceError as error:
                    failed = failed or error
        recording.flush_if_due()
        if failed is not None:
            raise failed
        return result

    def _reset_infos(self) -> Any:
        """The infos of the last reset of each lane, where they are kept; None for each elsewhere."""
        if not self._facts.by_attribute:
            return [None] * self._count
        self.reset_infos = base_of(self._inner).reset_infos  # whoever looks for them here finds them
        return self.reset_infos

    def _space(self, name: str) -> Any:
        """`observation_space` or `action_space` of one sub-environment."""
        return getattr(self._inner, f"single_{name}", None) or getattr(self._inner, name, None)

    # ---- what `Adopted` asks

    _library_of = staticmethod(vector_library_of)

    @staticmethod
    def _no_environment(found: Any) -> TraceError:
        problem = "no vector environment to wrap; for a single one there is TraceRecordingWrapper"
        problem = "not directly around the vector environment, as it must be" if holds_vector(found) else problem
        expected = "a VectorEnv of gymnasium or gym, or a VecEnv of stable_baselines3"
        return TraceError(problem, expected=expected, found=repr(found)[:80])

    @staticmethod
    def _bases_of(library: types.ModuleType) -> tuple[type, ...]:
        names = [name for wrappers in WRAPPERS.values() for name in wrappers]
        return (next(getattr(library, name) for name in names if hasattr(library, name)),)

    @classmethod
    def _methods_for(cls, base: type) -> dict[str, Any]:
        return {name: method for name, method in _OPTIONAL_METHODS.items() if hasattr(base, name)}


class _Reset(NamedTuple):
    """What a reset is to do: for which lanes, with which seeds and options, and for which a reset is due after it."""

    chosen: list[bool]
    seeds: list[Any]
    options: list[Any]
    gives_info: bool
    due: list[bool]


def _step_async(self: Any, actions: Any) -> Any:
    """Begins a step of all sub-environments, which `step_wait` finishes."""
    actions = self._begin(actions)
    try:
        return self._inner.step_async(actions)
    except BaseException:
        for lane in self.recording.lanes:
            if lane.dirty and not lane.closed:
                lane.recover()  # what was begun before, if it was, cannot be told from this
        self._is_open = False
        raise


def _step_wait(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Waits for the step and records it, as `step`."""
    self._result = self._inner.step_wait(*args, **kwargs)
    return self._finish()


def _reset_async(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Begins a reset, which `reset_wait` finishes."""
    self._reset_arguments = kwargs
    return self._inner.reset_async(*args, **kwargs)


def _reset_wait(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Waits for the reset and records it, as `reset`."""
    arguments, self._reset_arguments = self._reset_arguments, {}
    plan = self._begin_reset({**arguments, **kwargs})
    result, self._due = self._inner.reset_wait(*args, **kwargs), plan.due
    return self._finish_reset(result, plan)


def _seed(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Seeds the sub-environments; their next episodes are recorded with these seeds."""
    self._seeds_to_come = next(iter((*args, *kwargs.values())), None)
    return self._inner.seed(*args, **kwargs)


# Methods that not every library's wrapper has; an instance has them where its library does.
_OPTIONAL_METHODS = {
    "step_async": _step_async,
    "step_wait": _step_wait,
    "reset_async": _reset_async,
    "reset_wait": _reset_wait,
    "seed": _seed,
}
