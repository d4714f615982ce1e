"""What people install: the wheel, the source distribution, and the two commands of the README."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import gym_recording

ROOT = Path(__file__).resolve().parent.parent
MAIN_JOB = "pip install . && gym-recording record CartPole-v1 recordings --episodes 10 && gym-recording info recordings"
TEST_COMMAND = "pip install -e '.[test]' && python -m pytest"


def run(*command, cwd):
    """Runs a command and returns what it printed; shows all of it when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def files_under(directory):
    """The source files under a directory of the tree, as the archives should name them."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / directory).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A directory with the sdist, built from a copy of the tree, and the wheel, built from the sdist."""
    tmp = tmp_path_factory.mktemp("packaging")
    # A copy, because setuptools writes into the tree it builds; without leftovers, because it would pack them.
    leftovers = shutil.ignore_patterns(".git", ".*_cache", ".hypothesis", "*venv", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, tmp / "tree", ignore=leftovers)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp / "dist", cwd=tmp / "tree")
    return tmp / "dist"


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel, wheel_files):
    (name,) = (name for name in wheel_files if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(name).decode("utf-8"))


@pytest.fixture(scope="module")
def sdist_files(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The `bin` of a fresh environment that has the wheel, and borrows the dependencies of this one."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    # `--python` is there since pip 22.3. Neither index nor dependencies: no network.
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=home)
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    borrowed = [path for path in sys.path if path.endswith("-packages")]
    Path(purelib, "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    return home / "bin"


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel_files):
    assert "gym_recording/py.typed" in wheel_files
    assert {name for name in wheel_files if ".dist-info/" not in name} == files_under("gym_recording")


def test_the_wheel_holds_the_license(wheel_files):
    assert any(re.search(r"\.dist-info/(licenses/)?LICENSE$", name) for name in wheel_files)


def test_the_sdist_holds_what_its_own_tests_need(sdist_files):
    documents = {"README.md", "FORMAT.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}
    assert documents <= sdist_files
    assert {"setup.py", "pyproject.toml", "MANIFEST.in", ".ci/run", ".ci/noxfile.py"} <= sdist_files
    assert (
        files_under("gym_recording") | files_under("tests") | files_under("benchmarks") | files_under("docs")
        <= sdist_files
    )


def test_the_archives_hold_no_caches(wheel_files, sdist_files):
    assert not [name for name in wheel_files | sdist_files if "__pycache__" in name or "_cache/" in name]


def test_only_numpy_and_gym_are_required_and_without_an_upper_bound(metadata):
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    # On Python 3.8, setuptools writes a space before the bound.
    assert sorted(line.replace(" ", "") for line in required) == ["gym>=0.7", "numpy>=1.17"]


def test_every_optional_package_has_an_extra(metadata):
    extras = {"gymnasium", "isal", "cli", "dtypes", "plot", "video", "test", "browser", "lint"}
    assert set(metadata.get_all("Provides-Extra")) == extras


def test_the_metadata_says_version_python_and_license(metadata):
    assert metadata["Name"] in ("gym_recording", "gym-recording")
    assert metadata["Version"] == gym_recording.__version__
    assert metadata["Requires-Python"] == ">=3.8"
    assert metadata["License"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_an_installed_wheel_is_imported_from_its_own_place(installed, tmp_path):
    where = run(installed / "python", "-c", "import gym_recording; print(gym_recording.__file__)", cwd=tmp_path)
    assert installed.parent.resolve() in Path(where.strip()).resolve().parents


def test_an_installed_wheel_has_the_command(installed, tmp_path):
    for command in (["gym-recording"], ["python", "-m", "gym_recording"]):
        assert "record" in run(installed / command[0], *command[1:], "--help", cwd=tmp_path)


def test_an_installed_wheel_has_the_header_for_cpp(installed, tmp_path):
    where = run(installed / "python", "-c", "import gym_recording; print(gym_recording.get_include())", cwd=tmp_path)
    assert installed.parent.resolve() in Path(where.strip()).resolve().parents
    assert (
        Path(where.strip(), "gym_recording.hpp").read_bytes()
        == (ROOT / "gym_recording" / "readers" / "gym_recording.hpp").read_bytes()
    )


@pytest.mark.parametrize("command", [MAIN_JOB, TEST_COMMAND])
def test_ci_runs_the_commands_of_the_readme_word_for_word(command):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f'="{command}"\n' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
