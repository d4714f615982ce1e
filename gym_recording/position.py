"""A place in a recording, and the agent that does what was done: the recorded actions, episode by episode.

Values are given as an environment and an agent had them, as far as that is known: arrays are the caller's own, a dict
or tuple is one, an int is NumPy's int64, which the spaces of Gym sample. Knows no Gym.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from typing import Any

from .episode import Episode
from .errors import TraceError
from .memory import Place
from .playback import TraceRecordingReader
from .values import own


class Position:
    """Which episode is played back, and how far.

    Episodes without a step, or without a first observation, are left out: nobody could play them. After the last comes
    the first again.

    Args:
        source: the recording.

    Attributes:
        reader: of the recording.
        numbers: of the episodes that can be played, in the reader.
        traces: those that have such an episode.
        episode: the one that is played.
        step: the next one in it.

    Raises:
        TraceError: there is no episode that can be played, or something is missing or damaged.
    """

    episode: Episode

    def __init__(self, source: Place | TraceRecordingReader) -> None:
        reader = source if isinstance(source, TraceRecordingReader) else TraceRecordingReader(source)
        self.reader = reader._apart()  # numbers and seeds are those of this look
        self.numbers: list[int] = []
        self._seeds: dict[int, int] = {}
        whole: list[int] = []  # the numbers of the same episodes in the whole recording
        count = 0
        for start, chosen, outline in self.reader._outlines():
            for number, in_batch in enumerate(chosen, count):
                if outline.lengths[in_batch] and not outline.headless[in_batch]:
                    seed = outline.facts["seed"][in_batch]
                    if seed is not None:
                        self._seeds.setdefault(seed, len(self.numbers))
                    self.numbers.append(number)
                    whole.append(start + int(in_batch))
            count += len(chosen)
        if not self.numbers:
            directory = str(self.reader.directory)
            raise TraceError("there is no episode to play back", file=directory, expected="one with a step")
        places = [(bisect_left(whole, t.numbers.start), bisect_left(whole, t.numbers.stop)) for t in self.reader.traces]
        self.traces = [trace for trace, (start, stop) in zip(self.reader.traces, places) if start < stop]
        self._at = -1
        self.step = 0

    def begin(self, seed: int | None = None) -> Episode:
        """Goes on to the next episode, or to the first that was recorded with a seed; else the seed counts them."""
        place = self._at + 1 if seed is None else self._seeds.get(operator.index(seed), operator.index(seed))
        self._at = place % len(self.numbers)
        self.episode = self.reader[self.numbers[self._at]]
        self.step = 0
        return self.episode

    def next(self) -> int:
        """The number of the next step.

        Raises:
            TraceError: there is none.
        """
        if self._at < 0 or self.step == len(self.episode):
            why = "reset comes first" if self._at < 0 else "the recorded episode ends here; reset goes on to the next"
            raise TraceError(why, field=f"step {self.step}")
        self.step += 1
        return self.step - 1


class PlaybackAgent:
    """An agent that does what was done: `agent(observation)` is the next recorded action, whatever is observed.

    Args:
        source: the recording: a directory, a reader or a view. What `PlaybackEnv` leaves out is left out.

    Attributes:
        episode_count: how many episodes there are to play.
        episode: the one that is played, after `reset`: its `seed` and `options` are what the environment was given.

    Raises:
        TraceError: there is no episode to play, or something is missing or damaged.
    """

    def __init__(self, source: Place | TraceRecordingReader) -> None:
        self._position = Position(source)
        self.episode_count = len(self._position.numbers)

    @property
    def episode(self) -> Episode:
        return self._position.episode

    def reset(self, seed: int | None = None) -> None:
        """Goes on to the next episode, after the last to the first; as `PlaybackEnv.reset`, if there is a seed."""
        self._position.begin(seed)

    def __call__(self, observation: Any = None) -> Any:
        """The next action.

        Raises:
            TraceError: the episode has no more, or there was no `reset`.
        """
        step = self._position.next()
        return own(self.episode.actions[step])
