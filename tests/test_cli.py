"""The program: what it prints, where, and its exit codes."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA
from environments import LIBRARIES, OldWalk, Walk, class_of

import gym_recording
from gym_recording import TraceRecording, TraceRecordingReader, TraceRecordingWrapper
from gym_recording.cli import main
from gym_recording.format import write_manifest

needs_library = pytest.mark.skipif(not (find_spec("gym") or find_spec("gymnasium")), reason="no environments")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return importlib.import_module(request.param)


@pytest.fixture
def register(library):
    """A function that registers an environment for the time of a test, and gives its id."""
    registry = importlib.import_module(f"{library.__name__}.envs.registration").registry
    specs = registry if isinstance(registry, dict) else registry.env_specs  # before gym 0.24
    before = set(specs)

    def register(make, name="GymRecordingTest-v0"):
        library.envs.registration.register(id=name, entry_point=make)
        return name

    yield register
    for name in set(specs) - before:
        del specs[name]


def record(directory, *options, env_id="CartPole-v1"):
    return main(["record", env_id, str(directory), *options])


def rows(directory):
    return [
        (episode.observations.tolist(), episode.actions.tolist(), episode.rewards.tolist())
        for episode in TraceRecordingReader(directory)
    ]


def program(*arguments, **options):
    """Runs `python -m gym_recording` in a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    environment = {**os.environ, "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent)}
    command = [sys.executable, "-m", "gym_recording", *map(str, arguments)]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, encoding="utf-8", timeout=120, **options)


# ---- the program


@needs_library
def test_record_info_and_check_work_one_after_the_other_as_programs(tmp_path):
    done = program("record", "CartPole-v1", "here", "--episodes", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"recorded 2 episodes, \d+ steps, of CartPole-v1 in here\n", done.stdout)
    done = program("info", "here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 trace, 2 episodes" in done.stdout
    done = program("check", "here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "checked 1 trace, 1 batch, 2 episodes: 0 problems\n"


def test_an_error_is_one_line_on_stderr_and_no_traceback(tmp_path):
    done = program("info", tmp_path / "missing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gym-recording: {tmp_path / 'missing'}: No such file or directory\n"


@pytest.mark.skipif(os.name == "nt", reason="no such pipes")
def test_a_pipe_that_nobody_reads_is_no_reason_to_complain():
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = program("info", DATA / "golden" / "cartpole", stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
@pytest.mark.parametrize("library_name", LIBRARIES)
def test_ctrl_c_ends_a_run_and_keeps_what_was_recorded(library_name, tmp_path):
    script = f"""
import os, signal, sys
import {library_name} as library
from gym_recording.cli import main
from gym_recording.format import write_manifest

class Endless(library.Env):
    observation_space = action_space = library.spaces.Discrete(2)
    steps = 0
    def reset(self, **arguments):
        return 0, {{}}
    def step(self, action):
        self.steps += 1
        if self.steps == 100:
            os.kill(os.getpid(), signal.SIGINT)
        return 1, 1.0, False, False, {{}}

library.envs.registration.register(id="Endless-v0", entry_point=Endless)
sys.exit(main(["record", "Endless-v0", "here", "--episodes", "1", "--library", "{library_name}"]))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "interrupted: kept 1 episode of Endless-v0 in here\n")
    (episode,) = TraceRecordingReader(tmp_path / "here")
    assert (len(episode), episode.ended_by) in ((99, "close"), (100, "close"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required"),
        (["rewind"], "invalid choice"),
        (["info"], "required: DIRECTORY"),
        (["record", "CartPole-v1", "here"], "required: --episodes"),
        (["record", "CartPole-v1", "here", "--episodes", "0"], "--episodes: 0 is less than 1"),
        (["record", "CartPole-v1", "here", "--episodes", "many"], "invalid number value: 'many'"),
        (["record", "CartPole-v1", "here", "--episodes", "1", "--seed", "-1"], "--seed: -1 is less than 0"),
        (["record", "CartPole-v1", "here", "--episodes", "1", "--library", "dm_env"], "invalid choice: 'dm_env'"),
        (["merge", "here"], "required: DST"),
        (["select", "here"], "required: DST"),
        (["select", "here", "there", "--episodes", "few"], "--episodes: few is no slice"),
        (["select", "here", "there", "--episodes", "1:2:3:4"], "--episodes: 1:2:3:4 is no slice"),
        (["select", "here", "there", "--episodes", "::0"], "--episodes: ::0 is no slice"),
        (["select", "here", "there", "--metadata", "name"], "--metadata: name is not KEY=VALUE"),
        (["select", "here", "there", "--ended-by", "foo"], "--ended-by: invalid choice: 'foo'"),
        (["view", "here", "--port", "70000"], "--port: 70000 is more than 65535"),
        (["replay"], "required: DIRECTORY"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [[], ["record"], ["info"], ["check"], ["repair"], ["replay"], ["merge"], ["select"]]
)
def test_every_help_names_the_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert re.findall(r"^  (\d+)  ", capsys.readouterr().out, re.M) == ["0", "1", "2", "3", "130"]


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"gym-recording {gym_recording.__version__}\n"


# ---- record


def test_the_same_seed_records_the_same_and_is_recorded(library, tmp_path):
    for name, seed in (("one", "7"), ("two", "7"), ("other", "8")):
        options = ["--episodes", "3", "--seed", seed, "--library", library.__name__]
        assert record(tmp_path / name, *options) == 0
    assert rows(tmp_path / "one") == rows(tmp_path / "two") != rows(tmp_path / "other")
    assert [episode.seed for episode in TraceRecordingReader(tmp_path / "one")] == [7, 8, 9]
    # The same first observation: the environment was seeded, not the actions alone.
    assert rows(tmp_path / "one")[1][0][0] == rows(tmp_path / "other")[0][0][0]


def test_without_a_seed_every_run_is_another(library, tmp_path):
    for name in ("one", "two"):
        assert record(tmp_path / name, "--episodes", "2", "--library", library.__name__) == 0
    assert rows(tmp_path / "one") != rows(tmp_path / "two")
    assert [episode.seed for episode in TraceRecordingReader(tmp_path / "one")] == [None, None]


def test_the_recording_is_of_the_library_that_was_asked_for(library, tmp_path):
    assert record(tmp_path, "--episodes", "1", "--library", library.__name__) == 0
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert trace.writer["library"].split()[0] == library.__name__
    assert trace.env["id"] == "CartPole-v1"
    assert trace.closed


@needs_library
def test_gymnasium_is_taken_if_it_is_installed_else_gym(tmp_path):
    assert record(tmp_path, "--episodes", "1") == 0
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert trace.writer["library"].split()[0] == ("gymnasium" if find_spec("gymnasium") else "gym")


def test_runs_into_one_directory_add_up(library, tmp_path, capsys):
    for _ in range(2):
        assert record(tmp_path, "--episodes", "2", "--library", library.__name__) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(re.match(r"recorded 2 episodes, \d+ steps?, of CartPole-v1 in ", line) for line in lines)
    assert len(TraceRecordingReader(tmp_path)) == 4


def test_an_environment_with_the_old_interface_is_seeded_by_its_method(register, library, tmp_path):
    if library.__name__ != "gym":
        pytest.skip("gymnasium has no such environments")
    env_id = register(class_of("gym", OldWalk))
    assert record(tmp_path, "--episodes", "2", "--seed", "5", "--library", "gym", env_id=env_id) == 0
    starts = []
    for seed in (5, 6):
        env = class_of("gym", OldWalk)()
        env.seed(seed)
        starts.append(env.reset().tolist())
    assert [observations[0] for observations, _, _ in rows(tmp_path)] == starts


class NoSeed(Walk):
    def reset(self):
        return Walk.reset(self)


def test_an_environment_that_takes_no_seed_is_an_error_if_one_is_given(register, library, tmp_path, capsys):
    if hasattr(library.Env, "seed"):
        pytest.skip("every environment of this library takes one")
    env_id = register(class_of(library.__name__, NoSeed))
    options = ["--episodes", "1", "--seed", "1", "--library", library.__name__]
    assert record(tmp_path, *options, env_id=env_id) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "gym-recording: seed: the environment takes no seed"


def test_an_unknown_environment_is_one_line(library, tmp_path, capsys):
    for env_id in ("NoSuchThing-v0", "not an id", "gym_recording_no_such_module:Thing-v0", "a:b:c"):
        assert record(tmp_path, "--episodes", "1", "--library", library.__name__, env_id=env_id) == 1
        output = capsys.readouterr()
        assert output.out == ""
        (line,) = output.err.splitlines()
        assert line.startswith(f"gym-recording: {env_id}: {library.__name__} cannot make it: ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["record CartPole-v1 {} --episodes 20", "select {0}a {0}b"])
def test_a_full_disk_is_one_line_and_is_not_tried_again_at_exit(library, command, tmp_path):
    pytest.importorskip("resource")  # POSIX
    record_by_hand(f"{tmp_path / 'r'}a", *[[1.0] * 100] * 10)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))"
    code = f"{limit}; import sys; from gym_recording.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent),
        "PYTHONWARNINGS": "ignore",
    }
    arguments = [sys.executable, "-c", code, *command.format(tmp_path / "r").split()]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.endswith(": File too large\n")


@pytest.mark.parametrize("options", [[], ["--library", "gym"], ["--library", "gymnasium"]])
def test_an_absent_library_is_an_error_with_the_line_that_installs_it(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert record(tmp_path, "--episodes", "1", *options) == 1
    package = options[-1] if options else "gym"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gym-recording: record needs the package {package}: pip install ")


def test_a_directory_that_cannot_be_is_one_line(library, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert record(tmp_path / "file", "--episodes", "1", "--library", library.__name__) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"gym-recording: {tmp_path / 'file'}: File exists"


class Interrupted(Walk):
    """Walks, and is interrupted in its fifth step, which is the second of the second episode."""

    def step(self, action):
        if self.steps == 4:
            raise KeyboardInterrupt
        return Walk.step(self, action)


def test_an_interrupt_keeps_what_was_recorded(register, library, tmp_path, capsys):
    env_id = register(class_of(library.__name__, Interrupted))
    assert record(tmp_path, "--episodes", "9", "--library", library.__name__, env_id=env_id) == 130
    assert capsys.readouterr().out == f"interrupted: kept 2 episodes of {env_id} in {tmp_path}\n"
    assert [(len(e), e.ended_by) for e in TraceRecordingReader(tmp_path)] == [(3, "terminated"), (1, "close")]
    assert main(["check", str(tmp_path)]) == 0


class Failing(Walk):
    def step(self, action):
        if self.steps == 4:
            raise ZeroDivisionError("mine")
        return Walk.step(self, action)


def test_an_exception_of_the_environment_passes_and_what_was_recorded_is_kept(register, library, tmp_path):
    env_id = register(class_of(library.__name__, Failing))
    with pytest.raises(ZeroDivisionError, match="mine"):
        record(tmp_path, "--episodes", "9", "--library", library.__name__, env_id=env_id)
    assert [len(episode) for episode in TraceRecordingReader(tmp_path)] == [3, 1]


def test_a_value_that_cannot_be_stored_is_one_line(register, library, tmp_path, capsys):
    class Strange(Walk):
        def step(self, action):
            return {1, 2}, 0.0, False, False, {}

    env_id = register(class_of(library.__name__, Strange))
    assert record(tmp_path, "--episodes", "1", "--library", library.__name__, env_id=env_id) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "gym-recording: observations: cannot store <class 'set'>"


def test_there_is_a_progress_bar_if_tqdm_is_installed(library, tmp_path, monkeypatch):
    bars = []

    def tqdm(numbers, **options):
        bars.append((list(numbers), options["disable"]))
        return numbers

    module = types.ModuleType("tqdm")
    module.tqdm = tqdm
    monkeypatch.setitem(sys.modules, "tqdm", module)
    assert record(tmp_path, "--episodes", "3", "--library", library.__name__) == 0
    assert bars == [([0, 1, 2], None)]  # None: not where stderr is no terminal


def test_without_tqdm_there_is_no_bar_and_no_failure(library, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert record(tmp_path, "--episodes", "3", "--library", library.__name__) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1
    assert "episodes" not in output.err


# ---- info


def strict(text):
    def refuse(token):
        raise AssertionError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def info_of(directory, capsys, code=0):
    """What `info --json` says; the readable form must work too."""
    assert main(["info", str(directory)]) == code
    capsys.readouterr()
    assert main(["info", "--json", str(directory)]) == code
    return strict(capsys.readouterr().out)


def record_by_hand(directory, *episodes, **options):
    """Records the rewards of episodes."""
    with TraceRecording(directory, durability="none", **options) as recording:
        for rewards in episodes:
            recording.add_reset(0)
            for step, reward in enumerate(rewards):
                recording.add_step(0, 0, reward, terminated=step == len(rewards) - 1, truncated=False)


def test_info_says_what_was_recorded(library, tmp_path, capsys):
    assert record(tmp_path, "--episodes", "3", "--seed", "1", "--library", library.__name__) == 0
    capsys.readouterr()
    assert main(["info", str(tmp_path)]) == 0
    episodes = list(TraceRecordingReader(tmp_path))
    lengths = [len(episode) for episode in episodes]
    (trace,) = TraceRecordingReader(tmp_path).traces
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    mean = f"min {min(lengths)}, mean {sum(lengths) / 3:.8g}, max {max(lengths)}"
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}: 1 trace, 3 episodes, {sum(lengths)} steps, {size} bytes in 3 files",
        f"  returns      {mean}",
        f"  lengths      {mean}",
        "  ended by     terminated 3",
        f"  started      {episodes[0].started} to {episodes[-1].started}",
        "  seeds        of 3 episodes",
        f"{trace.name}: 3 episodes",
        f"  created      {trace.created}",
        "  env          CartPole-v1",
        "  observations Box(shape=[4], dtype=float32)",
        "  actions      Discrete(n=2, start=0)",
    ]


def test_info_as_json_has_the_documented_keys_and_all_the_numbers(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0, 2.0], [], [5.0], env={"id": "Mine-v0", "action_space": {"type": "Discrete", "n": 3}})
    info = info_of(tmp_path, capsys)
    with pytest.raises(SystemExit):
        main(["info", "--help"])
    text = capsys.readouterr().out
    documented = text[text.index("--json prints") : text.index("exit codes")]
    assert re.findall(r"^  ([a-z_]+)  ", documented, re.M) == list(info)
    assert re.split(r",\s+", re.search(r"traces +list of \{([a-z_,\s]+)\}", documented)[1]) == list(info["traces"][0])
    (trace,) = TraceRecordingReader(tmp_path).traces
    first, _, last = TraceRecordingReader(tmp_path)
    assert info == {
        "directory": str(tmp_path),
        "traces": [
            {
                "name": trace.name,
                "created": trace.created,
                "closed": True,
                "repaired": None,
                "env": "Mine-v0",
                "observation_space": None,
                "action_space": "Discrete(n=3)",
                "metadata": None,
                "episodes": 3,
            }
        ],
        "episodes": 3,
        "steps": 3,
        "returns": {"episodes": 3, "min": 0.0, "mean": 8 / 3, "max": 5.0},
        "lengths": {"episodes": 3, "min": 0, "mean": 1.0, "max": 2},
        "ended_by": {"terminated": 2, "reset": 1},
        "started": {"episodes": 3, "first": first.started, "last": last.started},
        "seeds": 0,
        "bytes": sum(path.stat().st_size for path in tmp_path.iterdir()),
        "files": 3,
        "errors": [],
    }


@pytest.mark.parametrize(
    ("rewards", "returns"),
    [
        ([1, 2.5], {"min": 3.5, "mean": 3.5, "max": 3.5}),
        ([True, False], {"min": 1.0, "mean": 1.0, "max": 1.0}),
        ([np.float32(0.5), np.float64(0.25)], {"min": 0.75, "mean": 0.75, "max": 0.75}),
        ([2**64, 0.5], {"min": 2.0**64, "mean": 2.0**64, "max": 2.0**64}),
        ([np.array([1.0]), np.array([0.5])], {"min": 1.5, "mean": 1.5, "max": 1.5}),
        ([float("nan")], None),
        ([float("inf")], {"min": "inf", "mean": "inf", "max": "inf"}),
        ([float("inf"), -float("inf")], None),
        ([-float("inf"), 2**64], {"min": "-inf", "mean": "-inf", "max": "-inf"}),
        ([1 << 2000], None),
        ([np.array([1.0, 2.0])], None),
        ([np.array([1.0]), np.array([1.0, 2.0])], None),
        ([1j], None),
        (["good"], None),
        ([None, 1.0], None),
        ([{"a": 1.0}], None),
        ([(1.0, 2.0)], None),
        ([{}], None),
    ],
)
def test_info_has_the_returns_of_rewards_that_are_numbers_and_no_others(rewards, returns, tmp_path, capsys):
    record_by_hand(tmp_path, rewards)
    info = info_of(tmp_path, capsys)
    assert info["returns"] == (returns and {"episodes": 1, **returns})
    assert (info["episodes"], info["steps"]) == (1, len(rewards))


def test_info_says_how_many_returns_there_are_if_not_all_are_numbers(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], ["text"])
    assert main(["info", str(tmp_path)]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "  returns      min 1, mean 1, max 1, of 1 episode; the returns of others are no numbers"


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "golden").iterdir() if path.is_dir()))
def test_info_and_check_read_the_recordings_of_the_original(name, capsys):
    expected = json.loads((DATA / "golden" / name / "expected.json").read_text())
    info = info_of(DATA / "golden" / name, capsys)
    assert [trace["episodes"] for trace in info["traces"]] == [len(episodes) for episodes in expected.values()]
    assert info["ended_by"] == {"unknown": info["episodes"]}
    assert {(trace["created"], trace["closed"], trace["env"]) for trace in info["traces"]} == {(None, None, None)}
    assert main(["check", str(DATA / "golden" / name)]) == 0


def test_an_empty_recording_is_said_to_be_empty(tmp_path, capsys):
    (tmp_path / "other.txt").write_text("mine")
    assert main(["info", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: nothing is recorded\n"
    info = info_of(tmp_path, capsys)
    assert (info["traces"], info["episodes"], info["returns"], info["lengths"], info["bytes"]) == ([], 0, None, None, 0)


@pytest.mark.parametrize(
    "command",
    [
        "info",
        "info --json",
        "check",
        "repair",
        "replay",
        "plot {} out.png",
        "video {} out.mp4",
        "select {} to",
        "merge {} to",
    ],
)
@pytest.mark.parametrize(("name", "why"), [("missing", "No such file or directory"), ("file", "Not a directory")])
def test_what_is_no_directory_is_an_error_that_says_so(command, name, why, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    command = command if "{}" in command else f"{command} {{}}"
    assert main(command.format(tmp_path / name).split()) == 1
    output = capsys.readouterr()
    assert (output.out, len(output.err.splitlines())) == ("", 1)
    assert f"{name}: {why}" in output.err
    assert os.listdir(tmp_path) == ["file"]


def test_info_says_all_that_is_there_and_what_is_damaged(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], [2.0, 3.0], buffer_batch_size=1)
    (tmp_path / next(path.name for path in tmp_path.glob("*.ep000000000.bin"))).unlink()
    info = info_of(tmp_path, capsys, code=1)
    assert (info["episodes"], info["steps"]) == (1, 2)
    (error,) = info["errors"]
    assert main(["info", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.err == f"gym-recording: {error}\n"
    assert "1 trace, 1 episode, 2 steps" in output.out


def test_info_says_what_headers_say_if_the_manifest_is_damaged(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0])
    (manifest,) = tmp_path.glob("*.manifest.json")
    manifest.write_text("{}")
    info = info_of(tmp_path, capsys, code=1)
    assert (info["episodes"], len(info["errors"])) == (1, 1)
    assert (info["traces"][0]["created"], info["traces"][0]["closed"]) == (None, None)


def test_a_trace_that_is_not_closed_is_said_to_be(tmp_path, capsys):
    recording = TraceRecording(tmp_path, durability="none")
    recording.add_reset(0)
    recording.end_episode()
    recording.save_complete()
    assert main(["info", str(tmp_path)]) == 0
    assert f"{recording.file_prefix}: 1 episode, not closed\n" in capsys.readouterr().out
    recording.close()


def test_a_trace_that_was_repaired_is_said_to_be(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0])
    (manifest,) = tmp_path.glob("*.manifest.json")
    manifest.unlink()
    assert main(["repair", "--force", str(tmp_path)]) == 3
    capsys.readouterr()
    assert main(["info", str(tmp_path)]) == 0
    assert ": 1 episode, repaired after a crash\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (
            {"type": "Box", "shape": [2], "dtype": "uint8", "low": 0, "high": 255},
            "Box(shape=[2], dtype=uint8, low=0, high=255)",
        ),
        (
            {"type": "Box", "shape": [2], "dtype": "float32", "low": [0, "-inf"], "high": [1, 2]},
            "Box(shape=[2], dtype=float32)",
        ),
        ({"type": "MultiDiscrete", "nvec": [2, 3]}, "MultiDiscrete(nvec=[2, 3])"),
        (
            {"type": "Dict", "spaces": {"a": {"type": "Discrete", "n": 2}, "b": None}},
            "Dict(a=Discrete(n=2), b=?)",
        ),
        (
            {"type": "Tuple", "spaces": [{"type": "MultiBinary", "n": 4}, {"type": "Tuple", "spaces": []}]},
            "Tuple(0=MultiBinary(n=4), 1=Tuple())",
        ),
        ("anything", "?"),
        ({"nonsense": 1}, "None(nonsense=1)"),
        ({"type": "Text", "charset": "x" * 500}, "Text(charset=" + "x" * 187 + "..."),
    ],
)
def test_spaces_are_written_short_whatever_a_manifest_says(space, text, tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], env={"observation_space": space})
    assert info_of(tmp_path, capsys)["traces"][0]["observation_space"] == text


def test_spaces_within_spaces_have_an_end(tmp_path, capsys):
    space = {"type": "Discrete", "n": 2}
    for _ in range(50):
        space = {"type": "Tuple", "spaces": [space]}
    record_by_hand(tmp_path, [1.0], env={"observation_space": space})
    assert info_of(tmp_path, capsys)["traces"][0]["observation_space"].count("Tuple") == 9


def test_what_a_file_says_does_not_control_the_terminal(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], env={"id": "\x1b[31mred\nsecond line\u202e"})
    assert main(["info", str(tmp_path)]) == 0
    assert "  env          \\x1b[31mred\\nsecond line\\u202e\n" in capsys.readouterr().out


def test_what_the_terminal_cannot_show_is_escaped(tmp_path):
    record_by_hand(tmp_path, [1.0], env={"id": "Schlüssel-v0"})
    for encoding, shown in (("ascii", "Schl\\xfcssel-v0"), ("utf-8", "Schlüssel-v0")):
        environment = {**os.environ, "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent)}
        environment["PYTHONIOENCODING"] = encoding
        command = [sys.executable, "-m", "gym_recording", "info", str(tmp_path)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", timeout=60)
        assert done.returncode == 0
        assert f"  env          {shown}\n" in done.stdout


# ---- check


def test_check_says_how_much_is_right(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], [2.0, 3.0], buffer_batch_size=1)
    record_by_hand(tmp_path, [1.0])
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "checked 2 traces, 3 batches, 3 episodes: 0 problems\n"


def test_check_prints_a_line_for_each_problem_and_fails(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0], [2.0, 3.0], buffer_batch_size=1)
    blobs = sorted(tmp_path.glob("*.bin"))
    for blob in blobs:
        blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    assert main(["check", str(tmp_path)]) == 1
    output = capsys.readouterr()
    *problems, last = output.out.splitlines()
    for problem, blob in zip(problems, blobs):
        assert re.fullmatch(rf"{blob.name}: crc32: damaged \(expected [0-9a-f]{{8}}, found [0-9a-f]{{8}}\)", problem)
    assert (len(problems), last) == (2, "checked 1 trace, 2 batches, 2 episodes: 2 problems")
    assert output.err == ""


def test_check_prints_notes_and_does_not_fail_for_them(tmp_path, capsys):
    record_by_hand(tmp_path, [1.0])
    (tmp_path / ".half.0123456789ab.tmp").write_text("")
    assert main(["check", str(tmp_path)]) == 0
    note, last = capsys.readouterr().out.splitlines()
    assert note == "note: .half.0123456789ab.tmp: being written, or left by a crash"
    assert last == "checked 1 trace, 1 batch, 1 episode: 0 problems"


def test_check_of_an_empty_directory_finds_nothing(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "checked 0 traces, 0 batches, 0 episodes: 0 problems\n"


def test_a_recording_by_the_wrapper_is_right(library, tmp_path, capsys):
    with_infos = TraceRecordingWrapper(class_of(library.__name__, Walk)(), tmp_path, infos=True, timestamps=True)
    for seed in range(3):
        with_infos.reset(seed=seed, options={"a": np.arange(3)})
        with_infos.step(1)
    with_infos.close()
    assert main(["check", str(tmp_path)]) == 0


def test_a_moved_recording_is_right(tmp_path, capsys):
    record_by_hand(tmp_path / "one", [1.0])
    shutil.move(str(tmp_path / "one"), str(tmp_path / "two [1]"))
    assert main(["check", str(tmp_path / "two [1]")]) == 0


# ---- replay, merge, select


@pytest.fixture
def walk(register, library):
    return register(class_of(library.__name__, Walk))


def test_replay_says_that_all_is_equal_or_what_is_not(library, walk, tmp_path, capsys):
    record(tmp_path, "--episodes", "2", "--seed", "3", "--library", library.__name__, env_id=walk)
    capsys.readouterr()
    assert main(["replay", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "replayed 2 episodes: 2 equal, 0 different, 0 unproven\n"
    assert main(["replay", str(tmp_path), "--env", "CartPole-v1"]) == 1
    different, *_, last = capsys.readouterr().out.splitlines()
    assert different.startswith("episode 0: different: at the reset: observations differs (expected float32 (3,) [")
    assert last == "replayed 2 episodes: 0 equal, 2 different, 0 unproven"
    assert main(["replay", str(tmp_path), "--env", walk, "--ignore", "observations", "--ignore", "rewards"]) == 0


def test_replay_fails_if_nothing_is_proven(library, walk, tmp_path, capsys):
    record(tmp_path, "--episodes", "2", "--library", library.__name__, env_id=walk)
    capsys.readouterr()
    assert main(["replay", str(tmp_path)]) == 1
    *unproven, last = capsys.readouterr().out.splitlines()
    start = "episode 0: unproven: neither its reset nor one before it had a seed; at the reset: observations differs by"
    assert unproven[0].startswith(start)
    assert last == "replayed 2 episodes: 0 equal, 0 different, 2 unproven"
    (tmp_path / "empty").mkdir()
    assert main(["replay", str(tmp_path / "empty")]) == 1
    assert capsys.readouterr().out == "replayed 0 episodes: 0 equal, 0 different, 0 unproven\n"


def test_replay_says_what_is_missing_and_replays_the_rest(library, walk, tmp_path, capsys):
    record(tmp_path, "--episodes", "1", "--seed", "3", "--library", library.__name__, env_id=walk)
    record(tmp_path, "--episodes", "1", "--seed", "4", "--library", library.__name__, env_id=walk)
    sorted(tmp_path.glob("*.bin"))[0].unlink()
    capsys.readouterr()
    assert main(["replay", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == "replayed 1 episode: 1 equal, 0 different, 0 unproven\n"
    assert "the blob is missing" in output.err


@pytest.mark.skipif(not (find_spec("gym") or find_spec("gymnasium")), reason="no environments")
def test_replay_says_which_environment_it_needs(tmp_path, capsys):
    assert main(["replay", str(DATA / "golden" / "cartpole")]) == 1
    assert "env.id: the environment was not made by a registered id; make it as" in capsys.readouterr().err
    for env_id in ("Nowhere-v0", "a:b:c"):
        assert main(["replay", str(DATA / "golden" / "cartpole"), "--env", env_id]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "cannot make it: " in line


def numbered(directory, count, **options):
    with TraceRecording(directory, durability="none", **options) as recording:
        for number in range(count):
            recording.add_reset(number)
            for _ in range(number):
                recording.add_step(0, number, 1.5, terminated=number == 2, truncated=False)
    return str(directory)


def test_merge_says_what_it_has_copied(tmp_path, capsys):
    one, two, copy = numbered(tmp_path / "a", 3), numbered(tmp_path / "b", 4), str(tmp_path / "c")
    assert main(["merge", one, two, copy]) == 0
    assert capsys.readouterr().out == f"merged 2 traces into {copy}\n"
    assert main(["merge", two, copy]) == 0
    assert capsys.readouterr().out == f"merged 0 traces into {copy}, 1 were there\n"
    assert len(TraceRecordingReader(copy)) == 7
    assert main(["merge", str(tmp_path / "missing"), copy]) == 1
    assert capsys.readouterr().err == f"gym-recording: {tmp_path / 'missing'}: No such file or directory\n"


def test_merge_says_what_it_has_renamed(tmp_path, capsys):
    for name in ("one", "two"):
        shutil.copytree(DATA / "golden" / "cartpole", tmp_path / name)
    for path in (tmp_path / "two").glob("*.json"):
        path.write_bytes(path.read_bytes() + b" ")
    assert main(["merge", str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "c")]) == 0
    renamed, merged = capsys.readouterr().out.splitlines()
    assert renamed == "renamed: openaigym.trace.0.16026 is openaigym.trace.1.16026"
    assert merged == f"merged 2 traces into {tmp_path / 'c'}"


SELECTED = {  # of episodes of 0 to 4 steps, each step with a reward of 1.5
    "--episodes 1:3": [1, 2],
    "--episodes 3": [3],
    "--episodes 700": [],
    "--episodes=-2:": [3, 4],
    "--episodes=-1": [4],
    "--episodes ::2": [0, 2, 4],
    "--min-length 2 --max-length 3": [2, 3],
    "--min-return 3 --max-return 4.5": [2, 3],
    "--ended-by terminated --ended-by close": [2, 4],
    "--env Some-v0": [0, 1, 2, 3, 4],
    "--env Other-v0": [],
    "--metadata run=3": [0, 1, 2, 3, 4],
    "--metadata run=4": [],
    "--metadata name=best --metadata run=3": [0, 1, 2, 3, 4],
    "--trace no": [],
    "": [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize("options", SELECTED)
def test_select_copies_what_fits_all_that_is_asked(options, tmp_path, capsys):
    about = {"env": {"id": "Some-v0"}, "metadata": {"run": 3, "name": "best"}}
    source, copy = numbered(tmp_path / "a", 5, **about), str(tmp_path / "b")
    assert main(["select", source, copy, *options.split()]) == (0 if SELECTED[options] else 1)
    assert [len(episode) for episode in TraceRecordingReader(copy)] == SELECTED[options]
    said = capsys.readouterr()
    if SELECTED[options]:
        assert said.out == f"selected {len(SELECTED[options])} of 5 episodes into {copy}\n"
    else:
        assert said.err == "gym-recording: none of 5 episodes fits and has ended; nothing was written\n"


def test_select_takes_text_that_is_no_json_however_it_nests(tmp_path, capsys):
    numbered(tmp_path / "a", 1, metadata={"x": "[1"})
    assert main(["select", str(tmp_path / "a"), str(tmp_path / "b"), "--metadata", "x=" + "[" * 100_000]) == 1
    assert main(["select", str(tmp_path / "a"), str(tmp_path / "b"), "--metadata", "x=[1"]) == 0
    said = capsys.readouterr()
    assert (said.out[:10], said.err[:30]) == ("selected 1", "gym-recording: none of 1 episo")


def test_select_says_what_it_leaves_out_and_where_it_does_not_write(tmp_path, capsys):
    with TraceRecording(tmp_path / "a", flush_interval=0, durability="none") as recording:
        recording.add_reset(0)
        recording.add_step(0, 0, 0.0)
        recording.save_complete()
        copy = str(tmp_path / "b")
        assert main(["select", str(tmp_path / "a"), copy]) == 1
    said = capsys.readouterr()
    assert said.out == "left out: episode 0, which has not ended; if its recorder died, repair it first\n"
    assert said.err == "gym-recording: none of 1 episode fits and has ended; nothing was written\n"
    assert main(["select", numbered(tmp_path / "c", 1), copy]) == 0
    assert main(["select", str(tmp_path / "c"), copy]) == 1
    assert "something is recorded here" in capsys.readouterr().err
    assert main(["select", str(tmp_path / "missing"), copy]) == 1


def test_what_takes_more_memory_than_there_is_is_one_line(tmp_path):
    """A manifest of 200 bytes that lists 10^9 episodes."""
    pytest.importorskip("resource")  # POSIX
    name = "openaigym.trace.0.1-0123456789ab"
    batch = {"first": 0, "len": 10**9, "fn": f"{name}.ep000000000.json"}
    (tmp_path / f"{name}.manifest.json").write_bytes(write_manifest([batch], {"closed": True}))
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))"
    code = f"{limit}; import sys; from gym_recording.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "select", str(tmp_path), str(tmp_path / "b"), "--episodes", "0:"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, timeout=60, encoding="utf-8")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("gym-recording: ")
