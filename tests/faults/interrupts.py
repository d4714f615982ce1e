"""A program that 300 signals interrupt at random moments, and what must be read back of it. Needs NumPy alone.

    python tests/faults/interrupts.py [INTERRUPTS] [SEED]

Prints one line and exits with 0 if nothing is lost and nothing is there twice.
"""

import os
import platform
import random
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from faults.events import Program, by_timer, interrupted, judge
from faults.session import MEMORY

from gym_recording import TraceRecording, TraceRecordingReader

OPTIONS = [{}, {"flush_interval": 0.002}, {"buffer_batch_size": 20}, {"batch_bytes": 5000}]
SENDER = """
import os, random, sys, time
draw = random.Random(float(sys.argv[2]))
try:
    while True:
        time.sleep(draw.expovariate(1 / 0.002))
        os.kill(int(sys.argv[1]), 2)
except ProcessLookupError:
    pass
"""


def by_process(program, count, draw):
    """Interrupts it from another process."""
    command = [sys.executable, "-c", SENDER, str(os.getpid()), str(draw.random())]
    with subprocess.Popen(command) as sender:
        interrupted(program, count, lambda: None, sender.kill)


def main(count=300, seed=0):
    calls = interrupts = 0
    draw = random.Random(seed)
    for how in (by_timer, by_process):
        for options in OPTIONS:
            with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
                program = Program(TraceRecording(directory, **options))
                how(program, -(-count // len(OPTIONS) // 2), draw)
                judge(TraceRecordingReader(directory, verify=True), program)
                calls += program.begun
                interrupts += program.interrupts
    print(f"Python {platform.python_version()}: {interrupts} interrupts in {calls} calls")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
