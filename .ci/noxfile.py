"""The matrix: the tests of the wrappers under every Gym. `pip install nox uv && nox -f .ci/noxfile.py` runs all of it.

A cell is one library version with one Python and one NumPy, chosen so that each of them occurs. A Python that is not on
this machine is skipped, and that is said. `nox -f .ci/noxfile.py -l` lists the cells, `-s NAME` runs one.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent.parent
nox.options.default_venv_backend = "uv"  # seconds for a cell; pip would take minutes for all
nox.options.error_on_missing_interpreters = False
os.environ["UV_PYTHON_DOWNLOADS"] = "never"

GYM = ["test_gyms.py", "test_api.py", "test_vector.py", "test_spaces.py", "test_environment.py", "test_playback_env.py"]
GYMS = [*GYM, "test_trace_recording.py", "test_programs.py", "test_replaying.py"]  # the interface of today
RENDERING = "pygame"  # gym 0.22 and 0.23 import it to make CartPole, and `play` everywhere

CELLS = [  # Python, what is installed, the tests
    ("3.8", ["gym==0.7.4", "numpy<1.20"], GYM),
    ("3.8", ["gym==0.9.7", "numpy<1.24"], GYM),
    ("3.9", ["gym==0.10.11", "numpy<1.24"], GYM),
    ("3.9", ["gym==0.12.6", "numpy<1.24"], GYM),
    ("3.10", ["gym==0.17.3", "numpy<1.24"], GYM),
    ("3.11", ["gym==0.21.0", "numpy<1.24"], GYM),
    ("3.10", ["gym==0.22.0", "numpy<1.24", RENDERING], GYM),
    ("3.10", ["gym==0.23.1", "numpy<1.24", RENDERING], GYM),
    ("3.11", ["gym==0.24.1", "numpy<1.24"], GYM),
    ("3.8", ["gym==0.25.2", "numpy<1.24"], GYM),
    ("3.9", ["gym==0.26.2", "numpy<1.24", RENDERING, "lz4"], GYMS),
    ("3.12", ["gym==0.26.2", "numpy>=2"], GYMS),
    ("3.8", ["gymnasium==0.26.3", "numpy<2"], GYMS),
    ("3.9", ["gymnasium==0.27.1", "numpy<2"], GYMS),
    ("3.10", ["gymnasium==0.28.1", "numpy<2"], GYMS),
    ("3.11", ["gymnasium==0.29.1", "numpy<2", RENDERING, "lz4"], GYMS),
    ("3.12", ["gymnasium==1.0.0", "numpy<2"], GYMS),
    ("3.13", ["gymnasium==1.2.*", "numpy>=2"], GYMS),
    ("3.13", ["gymnasium", "numpy>=2"], GYMS),
    ("3.11", ["dm_env", "pettingzoo", "gymnasium", "pygame"], ["test_dm_env.py", "test_pettingzoo.py"]),
    ("3.12", ["gymnasium", RENDERING, "ale-py", "opencv-python-headless", "moviepy"], ["test_programs.py"]),
]
BY_HAND = [  # torch is large
    ("3.11", ["stable-baselines3", "ale-py", "opencv-python-headless", "moviepy", RENDERING], GYMS),
]

# What setup.py files of these years still need: when built, and when running, for pkg_resources.
OLD_TOOLS = ["setuptools==65.5.0", "wheel==0.38.4"]


def find_python(version: str) -> str | None:
    """From pyenv or PATH; tried, because a shim of pyenv can be there and yet not run."""
    for path in [*sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), f"python{version}"]:
        try:
            subprocess.run([path, "-c", ""], check=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            continue
        return str(path)
    return None


def run_cell(session: nox.Session, version: str, packages: list[str], patterns: list[str]) -> None:
    """Installs and tests one cell."""
    if find_python(version) is None:
        session.skip(f"no Python {version} here")
    session.chdir(ROOT)
    tests = sorted({str(path) for pattern in patterns for path in Path("tests").glob(pattern)})
    if not tests:
        session.skip("no such tests yet")
    is_old = packages[0].startswith("gym==") and version != "3.12"
    constraints = Path(session.create_tmp(), "constraints.txt")
    constraints.write_text("\n".join(OLD_TOOLS if is_old else []))
    env = {"UV_BUILD_CONSTRAINT": str(constraints), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    tools = ["pytest", "hypothesis", *(OLD_TOOLS if is_old else [])]
    if "gym==0.21.0" in packages:  # its metadata is such that only old pips take it
        session.install("pip==23.2.1", *tools, *packages[1:])
        session.run("python", "-m", "pip", "install", "-q", "--no-build-isolation", *packages)
    else:
        session.install(*tools, *packages, env=env)
    # Without xdist: the cells are what runs beside each other. Warnings are those of old libraries.
    session.run(
        "python", "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "-W", "default", *tests, env=env
    )


def name_of(version: str, packages: list[str]) -> str:
    """`gym-0.26.2-3.12`."""
    return "-".join([*packages[0].partition("[")[0].replace(".*", "").split("=="), version])


for is_default, cells in ((True, CELLS), (False, BY_HAND)):
    for cell in cells:
        run = partial(run_cell, version=cell[0], packages=cell[1], patterns=cell[2])
        run.__doc__ = ", ".join(cell[1])
        name = name_of(*cell[:2])
        nox.session(name=name, python=find_python(cell[0]) or False, default=is_default, reuse_venv=True)(run)
