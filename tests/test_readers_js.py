"""The reader in JavaScript reads what the one in Python reads: every golden recording, every case of the table, and
nothing of the hostile recordings but what is good. Its own tests are tests/js; these need Node."""

import base64
import itertools
import json
import re
import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from cases import CASES
from conftest import DATA
from dumping import dump, value
from hostile import HOSTILE, Batch, outside, put_manifest, put_recording

import gym_recording
from gym_recording import TraceRecording, copy_episodes
from gym_recording.values import VIEWS, parse_dtype

NODE = shutil.which("node")
VERSION = subprocess.run([NODE, "--version"], capture_output=True, encoding="utf-8").stdout if NODE else "v0."
pytestmark = pytest.mark.skipif(int(VERSION[1:].split(".")[0]) < 18, reason="needs node, 18 or later")
ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "tests" / "drivers" / "dump.mjs"
MODULE = Path(gym_recording.__file__).parent / "readers" / "gym_recording.js"
GOLDEN = sorted(path for path in [*(DATA / "golden").iterdir(), DATA / "version_2"] if path.is_dir())


def run_node(*arguments, code=0, cwd=None):
    """What Node printed to stdout, or, with the exit code 1, to stderr."""
    command = [NODE, "--max-old-space-size=1024", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, cwd=cwd, encoding="utf-8", timeout=300)
    assert done.returncode == code, done.stderr[-2000:]
    assert bool(done.stdout) == (code == 0), "a driver that prints nothing"
    return done.stdout if code == 0 else done.stderr


def dump_each(directories, *options):
    """What the driver prints of each directory, in one process; {"error": text} of one that cannot be read."""
    lines = run_node(DRIVER, "--each", *options, *directories).splitlines()
    assert len(lines) == len(directories)
    return list(map(json.loads, lines))


def test_every_golden_recording_reads_as_in_python():
    for directory, printed in zip(GOLDEN, dump_each(GOLDEN)):
        assert printed == dump(directory), directory
        assert len(printed["episodes"]) > 0


def test_a_copy_of_an_old_recording_reads_as_in_python(tmp_path):
    copy_episodes(DATA / "golden" / "two_recordings", tmp_path)
    printed = json.loads(run_node(DRIVER, tmp_path))
    assert printed == dump(tmp_path)
    assert {episode["ended_by"] for episode in printed["episodes"]} == {None}


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=["at once", "streamed"])
def test_every_case_reads_as_in_python(record, options):
    directory = record(*CASES.values(), **options)
    expected, printed = dump(directory)["episodes"], json.loads(run_node(DRIVER, directory))["episodes"]
    assert len(printed) == len(CASES)
    assert [name for name, a, b in zip(CASES, expected, printed) if a != b] == []


def test_members_infos_and_running_episodes_read_as_in_python(tmp_path):
    options = {"infos": True, "timestamps": True, "lanes": 2, "durability": "none"}
    infos = [{"n": 1, "a": np.float32(2)}, {1: [2**70, 1.0], "text": "x"}, {"n": 3, "d": {"x": np.zeros(2)}}, {}]
    with TraceRecording(tmp_path, env={"1.0": [1, 1.0]}, **options) as recording:
        recording.add_reset(0.5, seed=2**80, options={"a": (1, np.int8(2)), 2: None}, info=infos[0], lane=1)
        for step, info in enumerate(infos[1:]):
            recording.add_step(step, np.ones(2), 0.5, terminated=True, truncated=False, info=info, lane=1)
        recording.lanes[1].gaps.append(2)
        recording.end_episode(lane=1)
        recording.add_reset({"a": 1})
        recording.flush_interval = 0
        recording.add_step(1, {"a": 2}, 1)
        recording.save_complete()  # waits
        running = json.loads(run_node(DRIVER, tmp_path))
        assert running == dump(tmp_path)
    ended = json.loads(run_node(DRIVER, tmp_path))
    assert ended == dump(tmp_path)
    assert [one["ended_by"] for one in running["episodes"]] == ["terminated", None]
    assert [one["ended_by"] for one in ended["episodes"]] == ["terminated", "close"]
    first = ended["episodes"][0]
    assert (first["seed"], first["lane"], first["gaps"], len(first["infos"])) == (str(2**80), 1, [2], 4)


def test_frames_read_as_in_python(tmp_path):
    shapes = ([(2, 3, 3)] * 3, [None, (2, 3), None], [(2, 3), (3, 2), (2, 3)], [None] * 3)
    with TraceRecording(tmp_path, frames=True, durability="none") as recording:
        for frames in shapes:
            first, *others = [None if size is None else np.full(size, n, "uint8") for n, size in enumerate(frames)]
            recording.add_reset(0, frame=first)
            for frame in others:
                recording.add_step(0, 0, 0.0, frame=frame)
        recording.flush_interval = 0
        recording.add_step(0, 0, 0.0)
        recording.save_complete()
        running = json.loads(run_node(DRIVER, tmp_path))
        assert running == dump(tmp_path)
    assert [list(one["frames"]) for one in running["episodes"]] == [["array"], ["list"], ["list"], ["list"]]


def test_traces_come_in_the_order_that_python_has(tmp_path):
    made = [("10.9-0123456789ab", "\uffff"), ("9.9-0123456789ab", "\U0001f600"), ("3.9-0123456789ab", "\uffff")]
    made += [("8.10-0123456789ab", ...), ("8.9-0123456789ab", ...)]
    for number, (end, created) in enumerate(made):
        Batch(number, trace=f"openaigym.trace.{end}", first=0).put(tmp_path)
        put_manifest(tmp_path, 2, [(0, 1)], f"openaigym.trace.{end}", created=created)
    assert json.loads(run_node(DRIVER, tmp_path)) == dump(tmp_path)


def old_recording(directory, version, arrays):
    """A recording of version 0 or 1 whose episodes have these observations, arrays by the text of their dtype."""
    directory.mkdir()
    for number, (text, array) in enumerate(arrays):
        batch = Batch(number, version)
        batch.blob += bytes(-len(batch.blob) % 64)
        start = len(batch.blob)
        npy = BytesIO()
        np.lib.format.write_array(npy, array, version=(1, 0))
        skipped = 0 if version == 0 else len(npy.getvalue()) - array.nbytes
        batch.blob += npy.getvalue()
        record = {**batch.observations, "shape": list(array.shape), "dtype": text, "npyoff": start + skipped}
        batch.episode["observations"] = record if version == 0 else {**record, "size": array.nbytes}
        batch.put(directory)


@pytest.mark.parametrize("version", [0, 1])
def test_byte_orders_and_structures_of_old_files_read_as_in_python(tmp_path, version):
    structure = "{'names': ['a', 'b'], 'formats': ['<i2', ('<f4', (2,))], 'offsets': [0, 4], 'itemsize': 16}"
    arrays = [
        (">f4", np.array([[1.5, 2], [3, 4]], ">f4")),
        (">c16", np.array([1 + 2j, 3], ">c16")),
        (">U3", np.array(["abc", "\U0001f600"], ">U3")),
        ("=i8", np.array([1, -2])),
        ("?", np.array([True, False])),
        (structure, np.arange(32, dtype="uint8").view(parse_dtype(structure))),
        ("[('a', '<i2'), ('', '|V2'), ('b', [('c', '|S3')], (2,))]", np.zeros(2, "V10")),
    ]
    arrays[-1] = (arrays[-1][0], np.arange(20, dtype="uint8").view(parse_dtype(arrays[-1][0])))
    old_recording(tmp_path / "old", version, arrays)
    printed = json.loads(run_node(DRIVER, tmp_path / "old"))
    assert printed == dump(tmp_path / "old")
    assert len(printed["episodes"]) == len(arrays)


def test_fortran_order_of_version_0_reads_as_in_python(tmp_path):
    array = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    old_recording(tmp_path / "old", 0, [("float64", array)])
    printed = json.loads(run_node(DRIVER, tmp_path / "old"))
    assert printed == dump(tmp_path / "old")
    assert printed["episodes"][0]["observations"]["array"]["hex"] == array.tobytes("C").hex()


# ---- damage and attacks


def number_of(episode):
    """The number of a good episode of `hostile`, None for all others."""
    given = [episode[key] for key in ("observations", "actions", "rewards")]
    try:
        number = int.from_bytes(bytes.fromhex(given[1]["array"]["hex"]), "little")
        good = np.full((2, 3), number % 256, "uint8"), np.array([number]), np.array([number + 0.5])
    except (KeyError, OverflowError):
        return None
    return number if given == list(map(value, good)) else None


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The directories of the hostile recordings, by name."""
    parent = tmp_path_factory.mktemp("hostile")
    directories = {}
    for number, (name, case) in enumerate(HOSTILE.items()):
        directory = parent / f"{number}"
        directory.mkdir()
        try:
            case.build(directory)
        except OSError:  # this system or user cannot
            continue
        directories[name] = directory
    assert len(directories) > 0.9 * len(HOSTILE)
    return directories


def must_complain(name):
    """Whether there must be an error; None if there may be one."""
    # Of 2^62 rows without a byte: Python counts them, JavaScript cannot.
    return True if name.startswith(("2^62 steps without", "2^62 rewards without")) else HOSTILE[name].refused


def test_of_what_is_hostile_only_the_good_is_read_and_the_rest_is_named(hostile):
    wrong = {}
    for name, printed in zip(hostile, dump_each(hostile.values(), "--skip")):
        case, errors = HOSTILE[name], printed["errors"]
        numbers = [number for number, _ in itertools.groupby(map(number_of, printed["episodes"]))]
        if not case.refused:
            numbers = [number for number in numbers if number in case.good]
        is_right = numbers == [number for number, _ in itertools.groupby(case.good)]
        is_right = is_right and must_complain(name) in (None, bool(errors))
        if not is_right or any(len(error) > 600 or "\n" in error for error in errors):
            wrong[name] = numbers, errors[:3]
    assert wrong == {}


def test_what_is_hostile_ends_the_driver_with_its_error(hostile):
    for number, (name, printed) in enumerate(zip(hostile, dump_each(hostile.values()))):
        assert must_complain(name) in (None, "error" in printed), (name, printed.get("error"))
        if number % 60 == 0:
            alone = run_node(DRIVER, hostile[name], code=1 if "error" in printed else 0)
            assert alone == f"{printed['error']}\n" if "error" in printed else json.loads(alone) == printed


def test_what_the_readme_shows_runs(tmp_path):
    (program,) = re.findall(r"```js\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    with TraceRecording(tmp_path / "recordings", durability="none") as recording:
        recording.add_reset(np.array([1.5, 2]))
        recording.add_step(0, np.array([3.0, 4]), 1, terminated=True, truncated=False)
    (tmp_path / "program.mjs").write_text(program.replace("./gym_recording/readers/gym_recording.js", MODULE.as_uri()))
    assert run_node("program.mjs", cwd=tmp_path) == "1 terminated [ 2, 2 ] Float64Array(2) [ 1.5, 2 ]\n"


def test_checksums_of_blobs_are_compared_on_request(tmp_path):
    outside(tmp_path / "recording")
    (tmp_path / "recording").mkdir(exist_ok=True)
    put_recording(tmp_path / "recording")
    (blob,) = (tmp_path / "recording").glob("*.ep000000001.bin")
    data = bytearray(blob.read_bytes())
    data[130] ^= 1
    blob.write_bytes(data)
    program = f"""
import {{ open, nodeSource }} from {json.dumps(MODULE.as_uri())};
for (const verify of [false, true]) {{
  const recording = await open(nodeSource({json.dumps(str(tmp_path / "recording"))}), {{ verify }});
  await recording.episode(0);
  console.log(await recording.episode(1).then(() => "read", (error) => error.message));
}}
"""
    lines = run_node("--input-type=module", "-e", program).splitlines()
    assert lines[0] == "read"
    assert "ep000000001.bin: crc32: damaged" in lines[1]


# ---- elements


def decoded(directory):
    """The `data` of the observations of each episode."""
    program = f"""
import {{ open, nodeSource }} from {json.dumps(MODULE.as_uri())};
for await (const {{ observations: {{ data }} }} of await open(nodeSource({json.dumps(str(directory))}))) {{
  console.log(data.constructor.name, Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64"));
}}
"""
    lines = run_node("--input-type=module", "-e", program).splitlines()
    return [(name, base64.b64decode(text)) for name, text in map(str.split, lines)]


@pytest.mark.parametrize("name", ["float16", *VIEWS])
def test_every_pattern_of_a_small_float_is_decoded_as_by_python(tmp_path, name):
    dtype = np.dtype("float16") if name == "float16" else getattr(pytest.importorskip("ml_dtypes"), name)
    patterns = np.arange(65536, dtype="uint16") if np.dtype(dtype).itemsize == 2 else np.arange(256, dtype="uint8")
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(patterns.view(dtype))
    ((kind, data),) = decoded(tmp_path)
    expected, found = patterns.view(dtype).astype("float32"), np.frombuffer(data, "float32")
    assert kind == "Float32Array"
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_the_driver_gives_what_was_recorded(tmp_path):
    """Said here by hand, without the reader of Python."""
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset({"a": 1, "b": [1]})
        recording.add_step(0, {"a": 2, "b": []}, 1.5)
    (episode,) = json.loads(run_node(DRIVER, tmp_path))["episodes"]
    array = {"array": {"dtype": "<i8", "shape": [2], "hex": "01000000000000000200000000000000"}}
    lists = {"list": [{"list": [{"int": "1"}]}, {"list": []}]}
    assert episode["observations"] == {"dict": [[{"text": "a"}, array], [{"text": "b"}, lists]]}
    assert episode["rewards"] == {"array": {"dtype": "<f8", "shape": [1], "hex": "000000000000f83f"}}
