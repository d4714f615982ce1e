"""A program that is interrupted and goes on, and what must be read back of it: nothing lost, nothing twice.

Everything that is recorded has a number of its own. A call that was interrupted may be recorded or not; one that has
returned is recorded exactly once, and all of them are in order.
"""

import os
import signal

import numpy as np
import numpy.ma  # an interrupt in an import is not what is tried


class Program:
    """Records one numbered call after the other, and catches what interrupts it.

    Attributes:
        returned: the numbers of the calls that returned.
        begun: how many were begun.
        interrupts: how often it was interrupted.
    """

    def __init__(self, recording, caught=KeyboardInterrupt):
        self.recording = recording
        self.caught = caught
        self.returned = []
        self.begun = self.interrupts = 0

    def run(self, goes_on):
        """Calls as long as `goes_on()`, then closes, until that is not interrupted."""
        while not self.recording.closed:
            try:
                self._run(goes_on)
            except self.caught:
                self.interrupts += 1

    def _run(self, goes_on):  # of its own: since Python 3.12, an interrupt where a loop begins anew escapes its `try`
        while goes_on():
            self.call()
        self.recording.close()

    def call(self):
        number = self.begun
        self.begun = number + 1
        call(self.recording, number)
        self.returned.append(number)


def is_reset(number):
    return number % 7 == 0


def call(recording, number):
    """The call of a number: a reset or a step whose values all tell the number."""
    if is_reset(number):
        recording.add_reset(observation(number))
    else:
        recording.add_step(number, observation(number), number + 0.5)
    if number % 19 == 18:
        recording.save_complete()


def observation(number):
    """Vectors, in some episodes large ones."""
    return np.full(3000 if number // 7 % 5 == 4 else 2, number, "float32")


def read_back(episodes):
    """The numbers of what was recorded, in order."""
    numbers = []
    for episode in episodes:
        rows = [int(row[0]) for row in episode.observations]
        assert all((row == row[0]).all() for row in episode.observations), "an observation is not whole"
        if not episode.headless:
            numbers.append(rows.pop(0))
            assert is_reset(numbers[-1])
        assert rows == list(episode.actions) == [reward - 0.5 for reward in episode.rewards], "a step is not whole"
        numbers += rows
    return numbers


def judge(episodes, program):
    """Asserts that all that returned is there, once, in order, and nothing that was never begun."""
    numbers = read_back(episodes)
    assert numbers == sorted(set(numbers)), "something is there twice, or in another order"
    lost = sorted(set(program.returned) - set(numbers))
    assert lost == [], f"calls {lost[:5]}… returned and are not recorded"
    assert set(numbers) <= set(range(program.begun))


def interrupted(program, count, start, stop):
    """Runs a program until it was interrupted so often.

    Args:
        start: begins to send SIGINT, at any moments. Those that come while the program handles one are put aside; one
            that Python throws away, because it comes in a finalizer, is none.
        stop: ends that.
    """
    allowed = False

    def handle(*_):
        nonlocal allowed
        if allowed:
            allowed = False
            raise KeyboardInterrupt

    def goes_on():
        nonlocal allowed
        allowed = program.interrupts < count
        return allowed

    old = signal.signal(signal.SIGINT, handle)
    try:
        start()
        program.run(goes_on)
    finally:
        stop()
        signal.signal(signal.SIGINT, old)


def by_timer(program, count, draw, mean=0.001):
    """Interrupts it by a timer, with this mean distance in seconds."""

    def send(*_):
        signal.setitimer(signal.ITIMER_REAL, draw.expovariate(1 / mean))
        os.kill(os.getpid(), signal.SIGINT)

    old = signal.signal(signal.SIGALRM, send)
    try:
        interrupted(program, count, send, lambda: signal.setitimer(signal.ITIMER_REAL, 0))
    finally:
        signal.signal(signal.SIGALRM, old)
