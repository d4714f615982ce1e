"""The readers that need no Python give what that of Python gives: of every golden recording, case and hostile recording.

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
from cases import CASES, KINDS, play
from conftest import DATA
from dumping import dump
from hostile import HOSTILE, put_recording

import gym_recording
from gym_recording import TraceError, TraceRecording
from gym_recording.format import write_document

DRIVERS = Path(__file__).parent / "drivers"
GOLDEN = sorted({path.parent for path in DATA.rglob("*.manifest.json")})
SECONDS = 60
CRASHED = 99  # what the sanitizers exit with
STREAMED = {"flush_interval": 0}

# ---- the drivers

STRICT = "-std=c++17 -Wall -Wextra -Wpedantic -Werror -O1 -g".split()
SANITIZED = "-fsanitize=address,undefined -fno-sanitize-recover=all".split()


@pytest.fixture(scope="session", params=["g++", "clang++"])
def driver(request, tmp_path_factory):
    """The command of a driver, built once for all processes of pytest."""
    compiler = shutil.which(request.param)
    if compiler is None:
        pytest.skip(f"no {request.param} here")
    base = tmp_path_factory.getbasetemp()
    program = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"dump-{request.param}"
    with open(f"{program}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            made = program.with_suffix(".made")
            include = f"-I{gym_recording.get_include()}"
            command = [compiler, *STRICT, *SANITIZED, include, DRIVERS / "dump.cpp", "-o", made]
            built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
            assert built.returncode == 0, built.stdout[:5000]
            made.rename(program)
    return [str(program)]


def run(driver, *arguments):
    """The exit code, what is printed, and what is complained of. A reader that crashes or hangs is a failure here."""
    environment = {**os.environ, "ASAN_OPTIONS": f"exitcode={CRASHED}", "LC_ALL": "C"}
    done = subprocess.run(
        [*driver, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
NUMBERS += f" -9223372036854775808 9223372036854775808 {'9' * 1233} 0.{'0' * 400}1e401 2.2250738585072011e-308 1e99999999999"
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
                records = [{"shape": [len(rows), 3, 4], "dtype": swapped.dtype.str} for rows in (swapped, *[swapped[:1]] * 2)]
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
def test_nothing_hostile_is_believed_and_nothing_beside_it_is_lost(driver, name, tmp_path):
    case = HOSTILE[name]
    directory = tmp_path / "recording"
    directory.mkdir()
    try:
        case.build(directory)
    except OSError as error:
        pytest.skip(str(error))
    code, _, error = run(driver, directory)
    assert case.refused in (None, code == 1), error
    assert code == 0 or re.search(case.error, error) or len(case.good) < 2, error
    code, dumped, error = run(driver, "--skip", directory)
    assert code == 0, error
    assert case.refused in (None, bool(dumped["errors"])), dumped["errors"][:3]
    numbers = numbers_of(dumped)
    if not case.refused:
        numbers = [number for number in numbers if number in case.good]
    assert numbers == [number for number, _ in itertools.groupby(case.good)]
    assert not dumped["errors"] or any(re.search(case.error, error) for error in dumped["errors"]), dumped["errors"][:3]
