"""A program that is interrupted and goes on, and what must be read back of it: nothing lost, nothing twice.

Everything that is recorded has a number of its own. A call that was interrupted may be recorded or not; one that has
returned is recorded exactly once, and all of them are in order.
"""

import signal

import numpy as np


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

    def run(self, goes_on, close=True):
        """Calls as long as `goes_on()`, then closes until that is not interrupted."""
        while True:
            try:
                while goes_on():
                    self.call()
                if close:
                    self.recording.close()
                return
            except self.caught:
                self.interrupts += 1

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


def interrupted(program, count, draw, mean=0.001):
    """Runs a program that is interrupted so often, at random moments of the mean distance `mean`, in seconds."""
    armed = []

    def goes_on():
        if len(armed) == program.interrupts < count:
            armed.append(program.begun)
            signal.setitimer(signal.ITIMER_REAL, draw.expovariate(1 / mean))
        return program.interrupts < count

    old = signal.signal(signal.SIGALRM, signal.default_int_handler)  # which is what Ctrl-C runs
    try:
        program.run(goes_on)
    finally:
        signal.signal(signal.SIGALRM, old)
