"""An environment that plays back what was recorded, whatever it is told to do.

Its class belongs to no library, so that importing it imports none; an instance is also of the `Env` of the library that
is installed, and has the interface of its version. What differs between those stands in `wrappers.api`.
"""

from __future__ import annotations

import inspect
import types
from functools import cached_property, lru_cache
from typing import Any

from .episode import Episode
from .errors import TraceError
from .memory import Place
from .playback import TraceRecordingReader
from .position import Position
from .rebuild import installed_library
from .values import own
from .wrappers.api import era_of, join_step, reset_gives_info

_SPACES = ("observation_space", "action_space")
_MODE = "rgb_array"


class PlaybackEnv:
    """Plays a recording back, as an environment of gymnasium, or of gym where that is what is installed.

    `reset` returns the first observation of the next episode, after the last of the first again; `step` the rest, step
    by step, for any action. Infos, and frames, which `render` returns, are there if they were recorded. Episodes
    without a step, or without a first observation, are left out. An episode that the environment did not end, but a
    reset, the close or a crash, is `truncated` at its last step, and so is one of which nobody knows whether the
    environment ended it, as in files of 2017. After that, `step` is an error until the next `reset`.

    Args:
        source: the recording: a directory, a reader or a view. All traces that it has episodes of must have the same
            spaces.

    Attributes:
        observation_space, action_space: those of the recording, rebuilt; None if none are recorded. Can be set.
        episode_count: how many episodes there are to play.
        episode: the one that is played, after `reset`.

    Raises:
        TraceError: there is no episode to play, spaces differ, or something is missing or damaged.
        MissingPackageError: neither gymnasium nor gym is installed.
    """

    _library: types.ModuleType
    _seed_to_come: int | None = None  # of `seed`, for the next reset

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls
        if not hasattr(cls, "_library"):
            made = _class_for(made, installed_library("a PlaybackEnv"))
        return made._library.Env.__new__(made)  # of the library: old gyms keep account of environments there

    def __init__(self, source: Place | TraceRecordingReader) -> None:
        self._position = Position(source)
        self.episode_count = len(self._position.numbers)
        self._trace, *others = self._position.traces
        for other in others:
            for key in _SPACES:
                if other.env.get(key) != self._trace.env.get(key):
                    problem, expected = "not the environment of the trace before it", f"that of {self._trace.name}"
                    raise TraceError(problem, file=other.name, field=f"env.{key}", expected=expected)
        if self._position.reader[self._position.numbers[0]].frames is not None:
            fps = self._trace.env.get("render_fps")
            self.metadata = {"render_modes": [_MODE], **({} if fps is None else {"render_fps": fps})}
            self.render_mode = _MODE if _MODE in era_of(self._library).frame else None

    @cached_property
    def observation_space(self) -> Any:
        return self._trace.observation_space

    @cached_property
    def action_space(self) -> Any:
        return self._trace.action_space

    @property
    def episode(self) -> Episode:
        return self._position.episode

    def reset(self, *, seed: int | None = None, options: Any = None, **kwargs: Any) -> Any:
        """The first observation of the next episode, and, where the library wants it, its info.

        Args:
            seed: the first episode that was recorded with this seed; if there is none, that of this number, modulo how
                many there are.
            options: anything; it changes nothing.
            kwargs: what the library has besides.
        """
        seed, self._seed_to_come = self._seed_to_come if seed is None else seed, None
        if seed is not None and "seed" in inspect.signature(self._library.Env.reset).parameters:
            self._library.Env.reset(self, seed=seed)  # its own generator, which others may use
        episode = self._position.begin(seed)
        observation = own(episode.observations[0])
        return (observation, self._info(0)) if reset_gives_info(self._library, kwargs) else observation

    def step(self, action: Any) -> Any:
        """What the recorded step led to.

        Raises:
            TraceError: the episode has no more, or there was no `reset`.
        """
        step, episode = self._position.next(), self.episode
        terminated = truncated = False
        if step + 1 == len(episode):
            terminated = bool(episode.terminated)
            truncated = bool(episode.truncated) or not terminated
        result = own(episode.observations[step + 1]), own(episode.rewards[step]), terminated, truncated
        return join_step(self._library, *result, self._info(step + 1))

    def _info(self, row: int) -> dict[Any, Any]:
        infos = self.episode.infos
        return {} if infos is None else own(infos[row])

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """The recorded frame of the last observation; None if there is none."""
        frames = self.episode.frames if hasattr(self._position, "episode") else None
        return None if frames is None else own(frames[self._position.step])

    def close(self) -> None:
        """Lets go of all files."""
        if "_position" in self.__dict__:
            self._position.reader.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = next(cls for cls in type(self).__mro__ if "_library" not in cls.__dict__)
        return plain.__new__, (plain,), self.__dict__.copy()


def _seed(self: Any, seed: Any = None) -> list[Any]:
    """Chooses the next episode, as `reset(seed=...)` does."""
    self._seed_to_come = seed
    return [seed]


@lru_cache(maxsize=None)
def _class_for(cls: Any, library: types.ModuleType) -> Any:
    """`cls` as an environment of a library."""
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    members = {**names, "_library": library, **({"seed": _seed} if hasattr(library.Env, "seed") else {})}
    return types.new_class(cls.__name__, (cls, library.Env), {}, lambda namespace: namespace.update(members))
