"""The readers that need no Python read as that of Python does: every golden, tabled, damaged and hostile recording.

A driver (tests/drivers) prints what its reader makes of a recording and judges nothing; `dumping` has the same of the
reader of Python. The C++ driver is built by every compiler that is there, with every warning an error, under the
address and undefined-behaviour sanitizers; without a compiler, its tests are skipped.
"""

import fcntl
import itertools
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import CASES, KINDS
from conftest import DATA
from dumping import dump
from hostile import HOSTILE, put_recording

import gym_recording
from gym_recording import TraceError, TraceRecording, copy_episodes
from gym_recording.format import write_document

DRIVERS = Path(__file__).parent / "drivers"
GOLDEN = sorted({path.parent for path in DATA.rglob("*.manifest.json")})
SECONDS = 60
CRASHED = 99  # what the sanitizers exit with
STREAMED = {"flush_interval": 0}

# ---- the drivers

STRICT = "-std=c++17 -Wall -Wextra -Wpedantic -Werror -g1".split()
SANITIZED = "-fsanitize=address,undefined -fno-sanitize-recover=all".split()


COMPILERS = ("g++", "clang++")


def there():
    """The compilers that are here."""
    return [name for name in COMPILERS if shutil.which(name)]


@pytest.fixture(scope="session")
def compile_with(tmp_path_factory):
    """A function that compiles a file, once for all processes of pytest, and gives the path of the program."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def compile_with(compiler, source, level="-O0"):
        program = base / f"{source.stem}-{compiler}"
        with open(f"{program}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                made = program.with_suffix(".made")
                options = [*STRICT, *SANITIZED, level, f"-I{gym_recording.get_include()}"]
                command = [compiler, *options, str(source), "-o", str(made)]
                built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
                assert built.returncode == 0, built.stdout[:5000]
                made.rename(program)
        return str(program)

    return compile_with


@pytest.fixture(params=COMPILERS)
def compiler(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    return request.param


def compiled_driver(compile_with, compiler):
    # Optimised, it takes twice as long to build and half as long to run: for the one that runs most.
    return [compile_with(compiler, DRIVERS / "dump.cpp", "-O1" if compiler == there()[-1] else "-O0")]


@pytest.fixture
def driver(compile_with, compiler):
    """The command of a driver."""
    return compiled_driver(compile_with, compiler)


@pytest.fixture
def one_driver(compile_with):
    """The command of the driver of one compiler, where so much is tried that two take too long."""
    if not there():
        pytest.skip(f"none of {COMPILERS} is here")
    return compiled_driver(compile_with, there()[-1])


def run(driver, *arguments):
    """The exit code, what is printed, and what is complained of. A reader that crashes or hangs is a failure here."""
    environment = {**os.environ, "ASAN_OPTIONS": f"exitcode={CRASHED}", "LC_ALL": "C"}
    done = subprocess.run(
        [*driver, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=SECONDS,
    )
    error = done.stderr.decode()
    assert done.returncode in (0, 1), error[-5000:]
    if done.returncode == 0:
        assert (done.stdout.endswith(b"}\n"), error) == (True, "")
        return 0, json.loads(done.stdout), ""
    assert done.stdout == b""
    assert re.fullmatch(r"[^\n]{10,600}\n", error), error
    return 1, None, error[:-1]


def check_alike(driver, directory):
    """A reader gives what that of Python gives."""
    expected = json.loads(json.dumps(dump(directory)))
    assert run(driver, directory) == (0, expected, "")
    return expected


# ---- what is good


@pytest.mark.parametrize("directory", GOLDEN, ids=[path.name for path in GOLDEN])
def test_a_golden_recording_is_read_alike(driver, directory):
    assert check_alike(driver, directory)["episodes"]


def test_a_copy_of_an_old_recording_does_not_say_what_ended_its_episodes(driver, tmp_path):
    copy_episodes(DATA / "golden" / "two_recordings", tmp_path)
    assert {episode["ended_by"] for episode in check_alike(driver, tmp_path)["episodes"]} == {None}


HOW_WRITTEN = {"one batch": {"batch_bytes": 1 << 40}, "many batches": {"buffer_batch_size": 7}, "streamed": STREAMED}


@pytest.mark.parametrize("how", HOW_WRITTEN)
def test_every_case_is_read_alike(driver, how, record):
    expected = check_alike(driver, record(*CASES.values(), **HOW_WRITTEN[how]))
    assert len(expected["episodes"]) == len(CASES)


def test_infos_of_every_kind_and_all_members_are_read_alike(driver, tmp_path):
    with TraceRecording(tmp_path, durability="none", infos=True, timestamps=True, lanes=2) as recording:
        for number, values in enumerate(KINDS.values()):
            lane = number % 2
            options = {"a": (1, {2: np.zeros((2, 1), "uint8")}), "b": [None, float("nan")]}
            recording.add_reset(0, seed=number << (number % 80), options=options, info={"first": 1}, lane=lane)
            for value in values.rows():
                flags = {"terminated": number % 3 == 0, "truncated": number % 5 == 0}
                recording.add_step(0, 0, 0.0, info={"value": value, 3: number, None: "x"}, lane=lane, **flags)
                recording.add_step(0, 0, 0.0, info={"other": 1}, lane=lane)
            with pytest.raises(TraceError):
                recording.add_step(object(), 0, 0.0, lane=lane)
            recording.add_step(0, 0, 0.0, lane=lane)
    expected = check_alike(driver, tmp_path)
    for member in ("infos", "timestamps", "seed", "options", "started", "gaps", "ended_by", "lane"):
        assert all(one[member] not in (None, []) for one in expected["episodes"]), member


@pytest.mark.parametrize("how", HOW_WRITTEN)
def test_frames_are_read_alike(driver, tmp_path, how):
    sizes = {"all": [(2, 3, 3)] * 4, "some": [None, (2, 3), None, (2, 3)], "sizes": [(2, 3), (3, 2), None, (2, 3)]}
    with TraceRecording(tmp_path, durability="none", frames=True, **HOW_WRITTEN[how]) as recording:
        for shapes in ([None] * 4, *sizes.values(), [(9, 9)]):
            frames = [None if size is None else np.full(size, n, "uint8") for n, size in enumerate(shapes)]
            recording.add_reset(0, frame=frames[0])
            for frame in frames[1:]:
                recording.add_step(0, 0, 0.0, frame=frame)
    kinds = [list(one["frames"]) for one in check_alike(driver, tmp_path)["episodes"]]
    assert kinds == [["list"], ["array"], ["list"], ["list"], ["array"]]


def test_dtypes_that_numpy_lacks_are_read_alike(driver, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
    with TraceRecording(tmp_path, durability="none") as recording:
        for name in names:
            array = np.arange(6).astype(getattr(ml_dtypes, name))
            recording.add_reset([array[0], "x", array])
            recording.add_step(array, {"a": [array]}, array[1])
    expected = check_alike(driver, tmp_path)
    assert [one["actions"]["array"]["view"] for one in expected["episodes"]] == list(names)


def test_a_running_episode_is_read_alike(driver, tmp_path):
    with TraceRecording(tmp_path, durability="none", flush_interval=0) as recording:
        recording.add_reset({"a": np.zeros(3, "float32"), "b": "x"})
        for number in range(5):
            recording.add_step(number, {"a": np.full(3, number, "float32"), "b": "y"}, 0.5)
            recording.save_complete()  # waits for what is written beside the loop
            check_alike(driver, tmp_path)


def test_where_nothing_is_recorded_there_is_no_episode(driver, tmp_path):
    for directory in (tmp_path, tmp_path / "absent"):
        assert check_alike(driver, directory) == {"episodes": [], "errors": []}


def test_traces_have_the_same_order(driver, tmp_path):
    for number, created in enumerate(("2026-01-03", "2026-01-02", "2026-01-02", "")):
        for pid in (2, 10, 9):
            trace = f"openaigym.trace.{10 - number}.{pid}-0123456789ab"
            put_recording(tmp_path, trace=trace, created=created or ...)
    assert len(check_alike(driver, tmp_path)["episodes"]) == 36


# Numbers as only old files and other writers have them.
NUMBERS = "0 -0 -0.0 1e5 1E+5 1.5e-5 1e400 -1e400 1e-400 0.1e-322 5e-324 123456789012345678901234567890 1e00000000001"
NUMBERS += (
    f" -9223372036854775808 9223372036854775808 {'9' * 1233} 0.{'0' * 400}1e401 2.2250738585072011e-308 1e99999999999"
)
NUMBERS += f" 0e99999999999 1e-99999999999 {2**4096 - 1} 0.{'3' * 5000} 179769313486231580793e289"


def test_numbers_have_the_same_bits(driver, tmp_path):
    values = ", ".join(NUMBERS.split())
    count = len(NUMBERS.split())
    episode = f'{{"observations": [{values}, "\\ud800\\u0041\\ud83d\\ude00\\udc00"], "actions": [{values}], '
    episode += f'"rewards": [{values}], "ended_by": "close"}}'
    trace = "openaigym.trace.0.12-0123456789ab"
    header = f'"first": 0, "blobs": [], "columns": [], "episodes": [{episode}]'
    (tmp_path / f"{trace}.ep000000000.json").write_bytes(write_document(header))
    assert len(check_alike(driver, tmp_path)["episodes"][0]["rewards"]["list"]) == count


OLD = "openaigym.trace.3.99.ep000000000"


def put_old(directory, arrays, records):
    """A recording of version 0 or 1 whose three members are `arrays`, by their records."""
    blob = b"".join(arrays)
    starts = itertools.accumulate([0, *map(len, arrays[:-1])])
    members = {
        key: {"__type": "ndarray", "npyfile": f"{OLD}.bin", "npyoff": start, **record}
        for key, start, record in zip(("observations", "actions", "rewards"), starts, records)
    }
    (directory / f"{OLD}.bin").write_bytes(blob)
    (directory / f"{OLD}.json").write_text(json.dumps({"episodes": [members]}))


def npy(descr, fortran, shape, data):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def test_old_arrays_of_every_byte_order_order_and_address_are_read_alike(driver, tmp_path):
    number = 0
    for dtype in ("i2", "u4", "f2", "f4", "f8", "c8", "c16", "U3", "S3", "i1"):
        array = np.arange(24).astype(dtype).reshape(2, 3, 4)
        for order, fortran in itertools.product("<>", (False, True)):
            swapped = array.astype(array.dtype.newbyteorder(order))
            for version in (0, 1):
                if version == 1 and fortran:
                    continue
                directory = tmp_path / str(number)
                directory.mkdir()
                number += 1
                records = [
                    {"shape": [len(rows), 3, 4], "dtype": swapped.dtype.str} for rows in (swapped, *[swapped[:1]] * 2)
                ]
                parts = []
                for rows, record in zip((swapped, swapped[:1], swapped[:1]), records):
                    data = rows.tobytes("F" if fortran else "C")
                    if version == 0:
                        parts.append(npy(repr(swapped.dtype.str), fortran, f"({len(rows)}L, 3L, 4)", data))
                    else:
                        parts.append(data + b"x")  # so that no address behind it is aligned
                        record.update(size=rows.nbytes, order="C")
                put_old(directory, parts, records)
                check_alike(driver, directory)


# ---- what is not


def numbers_of(dumped):
    """The numbers of the episodes, each run of one number once; None for those that are not good."""
    numbers = []
    for one in dumped["episodes"]:
        number = int.from_bytes(bytes.fromhex(one["actions"].get("array", {}).get("hex", "")[:16]), "little")
        good = np.full((2, 3), number % 256, "uint8"), np.array([number % 2**62]), np.array([number + 0.5])
        expected = [{"dtype": a.dtype.str, "shape": list(a.shape), "hex": a.tobytes().hex()} for a in good]
        found = [one[key].get("array") for key in ("observations", "actions", "rewards")]
        numbers.append(number if found == expected else None)
    return [number for number, _ in itertools.groupby(numbers)]


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_is_believed_and_nothing_beside_it_is_lost(one_driver, name, tmp_path):
    case = HOSTILE[name]
    directory = tmp_path / "recording"
    directory.mkdir()
    try:
        case.build(directory)
    except OSError as error:
        pytest.skip(str(error))
    code, _, error = run(one_driver, directory)
    assert case.refused in (None, code == 1), error
    assert code == 0 or re.search(case.error, error) or len(case.good) < 2, error
    code, dumped, error = run(one_driver, "--skip", directory)
    assert code == 0, error
    assert case.refused in (None, bool(dumped["errors"])), dumped["errors"][:3]
    numbers = numbers_of(dumped)
    if not case.refused:
        numbers = [number for number in numbers if number in case.good]
    assert numbers == [number for number, _ in itertools.groupby(case.good)]
    assert not dumped["errors"] or any(re.search(case.error, error) for error in dumped["errors"]), dumped["errors"][:3]


# ---- damage: whatever is changed, both readers refuse it, or give the same


def places_in(tree):
    """Every (container, key) of a JSON value."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in [(tree, key), *places_in(tree[key])]]


OTHERS = [None, True, 0, 1, -1, 8, 128, 2**31, 2**63, 0.5, "", "C", "ndarray", "tuple", "dict", "float32", "<U1", "|S3"]
OTHERS += ["bfloat16", "[('a', '<f4')]", [], [0], [1, 0], [2**62], [["a", 1]], {}, {"a": []}, "object", "close"]


def change(document, random):
    """A document with one change, and its checksum made right again."""
    tree = json.loads(document)
    places = [place for place in places_in(tree) if place[1] not in ("format", "crc32")]
    (container, key), (other, its_key) = random.choice(places), random.choice(places)
    kind = random.randrange(4)
    if kind == 0:
        del container[key]
    else:
        container[key] = random.choice(OTHERS) if kind < 3 else json.loads(json.dumps(other[its_key]))
    body = {key: value for key, value in tree.items() if key not in ("format", "crc32")}
    return write_document(json.dumps(body)[1:-1]) if "format" in tree else json.dumps(tree).encode()


def damage(data, random):
    """Bytes of which some are changed, inserted, or cut away."""
    at = random.randrange(len(data) + 1)
    end = random.choice([at, at + 1, len(data)])
    return (
        data[:at] + bytes(random.choice(b'\x00\x01 "\\,]}{[0-9a\xff') for _ in range(random.randrange(4))) + data[end:]
    )


def outcome_of(read):
    """What is read, or None where it is refused."""
    try:
        return json.loads(json.dumps(read()))
    except TraceError:
        return None


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Recordings of all versions, as {name: bytes}."""
    directory = tmp_path_factory.mktemp("originals")
    with TraceRecording(directory, durability="none", infos=True, timestamps=True) as recording:
        for name in ("dicts", "tuples in tuples", "lists of arrays", "dicts with keys of all types"):
            recording.add_reset(0, seed=3, options={"a": (1, np.zeros(2))}, info={"key": 1})
            for value in KINDS[name].rows():
                recording.add_step(value, value, 0.5, terminated=False, truncated=True, info={"other": value})
    names = ("dict_spaces", "tuple_spaces", "two_recordings", "v0_cartpole")
    directories = [directory, DATA / "version_2", *[DATA / "golden" / name for name in names]]
    return [{path.name: path.read_bytes() for path in sorted(each.glob("openaigym.*.*n"))} for each in directories]


TRIES = int(os.environ.get("READERS_TRIES", "25"))  # of each kind, part and compiler


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", ["changed", "damaged"])
def test_what_is_damaged_is_refused_or_read_alike(driver, kind, part, originals, tmp_path):
    source = random.Random(f"{kind} {part} {os.environ.get('READERS_SEED', '')}")
    for number in range(TRIES):
        files = dict(source.choice(originals))
        name = source.choice([name for name in files if kind == "damaged" or name.endswith(".json")])
        files[name] = (change if kind == "changed" else damage)(files[name], source)
        directory = tmp_path / str(number)
        directory.mkdir()
        for file, data in files.items():
            (directory / file).write_bytes(data)
        expected = outcome_of(lambda directory=directory: dump(directory))
        _, found, error = run(driver, directory)
        assert found == expected, (directory, error)
        _, found, error = run(driver, "--skip", directory)
        expected = dump(directory, skip=True)
        assert found["episodes"] == json.loads(json.dumps(expected["episodes"])), directory
        assert len(found["errors"]) == len(expected["errors"]), directory
        shutil.rmtree(directory)


# ---- what programs call

POINT = np.dtype([("x", "<f4"), ("y", "<i8")])
CALLED = """\
2 episodes of 1 trace, 1 batch, closed, 7
{directory}: no such episode (expected less than 2, found 2)
uint8: 1 2 3 4 5 6 7 8 9
shape: 3 3
float16: 0.5 -65504 inf 5.96046e-08 -0 1
bool: 1 0 0
complex: (1,-2) (0,0.5) (2,0)
texts: [a\u00e9] [] [xyz] [\U0001f600] [] [b]
fields: x@0 <f4 y@4 <i8
row 1: 4 5 6
loose: text -3 36893488147419103232 0.5 3
actions[0]: 4 5
rewards: 0.25 0.5
T: 2, first: 0, seed: 11, ended by close, options: 1
info 1: 9
infos: 0 1
no rewards:
dtype: the elements are of another type (found uint8)
absent: no such key
no such row (found 9)
the value is of another type (expected a dict)
no such item (found 5)
dtype: the elements are no text (found float32)
"""


def test_programs_get_what_they_call_for(compile_with, compiler, tmp_path):
    half = np.array([[0.5, -65504], [np.inf, 6e-8], [-0.0, 1]], "float16")
    texts = np.array([["a\xe9", ""], ["xyz", "\U0001f600"], ["", "b"]])
    rows = [
        {
            "image": np.array([1, 2, 3], "uint8") + 3 * t,
            "half": half[t],
            "flag": t == 0,
            "complex": (1 - 2j, 0.5j, 2 + 0j)[t],
            "texts": texts[t],
            "point": np.zeros((), POINT),
        }
        for t in range(3)
    ]
    loose = ["text", [-3, 0.5], 2**65]
    with TraceRecording(tmp_path, durability="none", infos=True, metadata={"a": 7}) as recording:
        recording.add_reset(0)
        recording.add_reset({**rows[0], "loose": loose[0]}, seed=11, options={"x": True})
        recording.add_step((4, "a"), {**rows[1], "loose": loose[1]}, np.float32(0.25), info={"n": 9})
        recording.add_step((5, "b"), {**rows[2], "loose": loose[2]}, np.float32(0.5))
    done = subprocess.run(
        [compile_with(compiler, DRIVERS / "calls.cpp"), str(tmp_path)], stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert (done.returncode, done.stdout) == (0, CALLED.format(directory=tmp_path))


def test_the_program_of_the_readme_prints_what_was_recorded(compile_with, compiler, tmp_path):
    (program,) = re.findall(
        r"^```cpp\n(.*?)^```$", (DRIVERS.parent.parent / "README.md").read_text("utf-8"), re.M | re.S
    )
    source = tmp_path / "readme.cpp"
    source.write_text(program)
    with TraceRecording(tmp_path / "recordings", durability="none") as recording:
        recording.add_reset(np.array([0.5, 1.5], "float32"))
        recording.add_step(0, np.array([2.5, -1], "float32"), 0.0)
    done = subprocess.run([compile_with(compiler, source)], cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, "0.5 1.5 2.5 -1 1 steps\n")
