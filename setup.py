"""Metadata of the package; the settings of the tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
# Read, not imported: NumPy need not be there when the package is built.
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "gym_recording" / "__init__.py").read_text("utf-8"), re.M)[1]

setup(
    name="gym_recording",
    version=VERSION,
    description="Record what an agent and an environment did, exactly, to plain files, and play it back.",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    author="gym_recording contributors",
    license="MIT",  # no licence classifier beside it: PEP 639 deprecates them
    keywords="gym gymnasium reinforcement-learning recording dataset",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.8",
    packages=find_packages(include=["gym_recording*"]),
    package_data={"gym_recording": ["py.typed", "readers/*", "viewer/*", "viewer/uplot/*"]},
    # No upper bounds: whoever works with gymnasium keeps the NumPy that they have.
    install_requires=["numpy>=1.17", "gym>=0.7"],
    extras_require={
        "gymnasium": ["gymnasium>=0.26"],
        "isal": ["isal"],
        "cli": ["tqdm"],
        "dtypes": ["ml_dtypes"],
        "plot": ["matplotlib"],
        "video": ["imageio-ffmpeg"],
        # setuptools as in pyproject.toml: the tests build the package without a network.
        "test": [
            "pytest",
            "pytest-xdist",
            "hypothesis",
            "build",
            "setuptools>=70.1",
            "gymnasium>=0.26",
            "dm-env",
            "pettingzoo",
            "tqdm",
            "ml_dtypes",
            "imageio-ffmpeg",
            "matplotlib",
            "pandas",
        ],
        "browser": ["playwright"],  # for tests/test_viewer_page.py
        "lint": ["ruff", "mypy"],
    },
    entry_points={"console_scripts": ["gym-recording = gym_recording.cli:main"]},
)
