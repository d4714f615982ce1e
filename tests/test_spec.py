"""The documents say what is so: their snippets run, their tables equal the code, their example is a recording."""

import ast
import contextlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import zlib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gym_recording
from gym_recording import Episode, TraceError, TraceRecording, TraceRecordingReader, format, values
from gym_recording.wrappers.api import describe

ROOT = Path(__file__).resolve().parent.parent
README, FORMAT, CONTRIBUTING = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "FORMAT.md", "CONTRIBUTING.md")
)
LIBRARIES = [library for library in ("gym", "gymnasium") if importlib.util.find_spec(library)]


# ---- reading the documents


def section(document, title):
    """The text under a heading of the second level, up to the next."""
    (text,) = re.findall(rf"^## (?:\d+\. )?{re.escape(title)}\n(.*?)(?=^## |\Z)", document, re.M | re.S)
    return text


def tables(text):
    """The tables in a text: each a list of rows, each a list of cells; without their heads."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    return [[row_cells(row) for row in table.splitlines()[2:]] for table in found]


def row_cells(row):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def codes(cell):
    """What stands between backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def blocks(document, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document, re.M | re.S)


def keys(title, index=0):
    """The keys in a table of FORMAT.md: those that are always there, and all."""
    always, every = set(), set()
    for cells in tables(section(FORMAT, title))[index]:
        every.update(codes(cells[0]))
        if cells[1] == "always":
            always.update(codes(cells[0]))
    return always, every


def run(*command, cwd):
    """Runs Python with the package of this tree and returns what it printed; shows all of it when it fails."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- README.md


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_snippets_of_the_readme_run_in_order(library, tmp_path):
    snippets = "\n".join(blocks(README, "python"))
    if library == "gymnasium":
        assert "With gymnasium: `import gymnasium as gym`, and no flag." in README
        snippets = snippets.replace("import gym\n", "import gymnasium as gym\n")
        snippets = snippets.replace(", disable_env_checker=True", "")
    (tmp_path / "snippets.py").write_text(snippets, encoding="utf-8")
    printed = run("snippets.py", cwd=tmp_path).splitlines()
    assert len(printed) == 6  # three episodes by each of the two ways
    assert all(re.fullmatch(r"\(\d+, 4\) \(\d+,\) \d+\.0", line) for line in printed[:3])
    assert all(re.fullmatch(r"\d+ (terminated|truncated) \d+\.0", line) for line in printed[3:])


@pytest.mark.skipif(not LIBRARIES, reason="no environments")
def test_the_commands_of_the_readme_run_in_order(tmp_path):
    ran = set()
    for line in "".join(blocks(README, "console")).splitlines():
        for command in line.split(" && "):
            program, *arguments = shlex.split(command)
            if program == "gym-recording":
                printed = run("-m", "gym_recording", *arguments, cwd=tmp_path)
                if "--json" in arguments:
                    json.loads(printed)
                ran.add(arguments[0])
    assert ran == {"record", "info", "check"}
    assert len(TraceRecordingReader(tmp_path / "recordings")) == 13


def test_the_readme_names_every_command_option_and_exit_code(tmp_path):
    commands, exit_codes = tables(section(README, "Commands"))
    rows = {codes(cells[0])[0].split()[0]: cells for cells in commands}
    help_text = run("-m", "gym_recording", "--help", cwd=tmp_path)
    assert list(rows) == re.findall(r"^    ([a-z]+)  ", help_text, re.M)
    assert [cells[0] for cells in exit_codes] == re.findall(r"^  (\d+)  ", help_text, re.M)
    for command, (usage, does) in rows.items():
        help_text = run("-m", "gym_recording", command, "--help", cwd=tmp_path)
        assert set(re.findall(r"--[a-z]+", does)) == set(re.findall(r"--[a-z]+", help_text)) - {"--help"}
        assert codes(usage)[0].split()[1:] == re.findall(r"^  ([A-Z_]+)(?:  |$)", help_text, re.M)


def test_the_readme_names_every_option_of_the_recorder_and_its_default():
    parameters = inspect.signature(TraceRecording).parameters.values()
    options = {one.name: repr(one.default).replace("'", '"') for one in parameters if one.name != "directory"}
    assert {codes(cells[0])[0]: codes(cells[1])[0] for cells in tables(section(README, "Options"))[0]} == options


def test_the_readme_names_every_attribute_of_an_episode():
    named = {name for cells in tables(section(README, "Play back"))[0] for name in codes(cells[0])}
    properties = {name for name, member in vars(Episode).items() if isinstance(member, property)}
    assert named == {field.name for field in fields(Episode)} | properties


def test_links_between_the_documents_lead_somewhere():
    for document in (README, FORMAT, CONTRIBUTING):
        titles = re.findall(r"^#+ (.+)$", document, re.M)
        anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
        for target in re.findall(r"\]\(([^)]+)\)", document):
            if target.startswith("#"):
                assert target[1:] in anchors
            elif "://" not in target:
                assert (ROOT / target).exists(), target


# ---- CONTRIBUTING.md


def imported(path):
    """The modules of the package that a module imports when it is loaded."""
    package = Path(gym_recording.__file__).parent
    for node in ast.parse(path.read_bytes()).body:  # not those inside of functions, nor for type checking
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1]
            for target in [base / node.module] if node.module else [base / alias.name for alias in node.names]:
                for file in (target.with_suffix(".py"), target / "__init__.py"):
                    if file.exists():
                        yield file.relative_to(package).as_posix()


def test_the_table_of_modules_has_every_module_below_those_that_it_imports():
    package = Path(gym_recording.__file__).parent
    modules = [codes(cells[0])[0] for cells in tables(section(CONTRIBUTING, "Where things live"))[0]]
    assert sorted(modules) == sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    for at, module in enumerate(modules):
        assert set(imported(package / module)) <= set(modules[:at]), module


# ---- FORMAT.md: names


def name_rows():
    """`{kind: (regular expression, example)}`."""
    text = section(FORMAT, "Files and names")
    (trace,) = re.findall(r"`TRACE` stands for\s+`([^`]+)`", text)
    rows = {}
    for kind, pattern, example in tables(text)[0]:
        rows[kind] = re.compile(codes(pattern)[0].replace("TRACE", trace), re.ASCII), codes(example)[0]
    return rows


def neighbours(name):
    """Names that differ in one place."""
    for at in range(len(name) + 1):
        for text in ("", "0", "a", "g", "-", ".", "/", "\n", "٣"):
            yield name[:at] + text + name[at:]
            yield name[:at] + text + name[at + 1 :]


@pytest.mark.parametrize("kind", ["manifest", "header", "blob"])
def test_a_name_is_ours_if_and_only_if_the_pattern_of_its_kind_matches(kind):
    rows = name_rows()
    names = [example for _, example in rows.values()]
    names += [example.replace("-0123456789ab", "") for example in names]
    names += [f"openaigym.trace.0.1.ep{'0' * digits}.json" for digits in (8, 18, 19)]
    names += [f"openaigym.trace.{'0' * digits}.{'0' * digits}.manifest.json" for digits in (20, 21)]
    names += [f"openaigym.trace.0.1.ep000000000.{column}.bin" for column in ("0", "123456", "1234567", "a")]
    for example in names:
        for name in (example, *neighbours(example)):
            parsed = format.parse_name(name)
            assert (parsed is not None and parsed.kind == kind) == bool(rows[kind][0].fullmatch(name)), name


def test_the_names_that_are_written_are_the_examples():
    trace = format.trace_name(0, "4711-0123456789ab")
    assert {kind: example for kind, (_, example) in name_rows().items()} == {
        "manifest": format.manifest_name(trace),
        "header": format.header_name(trace, 0),
        "blob": format.blob_name(trace, 0),
    }


# ---- FORMAT.md: keys


class Discrete:
    n, start = 2, 0


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The manifest and the header of a recording in which everything is switched on."""
    directory = tmp_path_factory.mktemp("everything")
    spec = SimpleNamespace(id="Some-v0", kwargs={"size": 3}, max_episode_steps=10)
    env = SimpleNamespace(spec=spec, observation_space=Discrete(), action_space=Discrete())
    options = {"infos": True, "timestamps": True, "metadata": {"by": "me"}, "library": "gym 0.26.2"}
    with TraceRecording(directory, env=describe(env), **options) as recording:
        recording.lane.number = 1
        recording.add_step(0, np.zeros(3, "uint8"), 0.0)  # before a reset: headless
        recording.add_reset(np.zeros(3, "uint8"), seed=3, options={"array": np.zeros(2)}, info={"lives": 3})
        with pytest.raises(TraceError):
            recording.add_step(0, object(), 0.0)  # a gap
        observation = np.zeros(3, "uint8")
        recording.add_step(0, observation, 0.0, terminated=True, truncated=False, info={"lives": 2})
        with contextlib.suppress(ImportError):
            import ml_dtypes

            recording.add_reset(np.zeros(3, ml_dtypes.bfloat16))
    (manifest,) = directory.glob("*.manifest.json")
    (header,) = directory.glob("*.ep*.json")
    return json.loads(manifest.read_bytes()), json.loads(header.read_bytes())


def check_keys(objects, always, every):
    """The keys of objects: each has those that are always there, and together they have all."""
    assert all(always <= set(one) for one in objects)
    assert set().union(*objects) == every


def array_records(value):
    if isinstance(value, dict):
        if value.get("__type") == "ndarray":
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from array_records(item)


def test_a_manifest_has_the_keys_of_the_tables(everything):
    manifest, _ = everything
    check_keys([manifest], *keys("Manifest"))
    check_keys(manifest["batches"], *keys("Manifest", 1))
    check_keys([manifest["env"]], *keys("Manifest", 3))
    always, every = keys("Manifest", 2)
    check_keys([manifest["writer"]], always, every if "boot" in manifest["writer"] else every - {"boot"})


def test_a_header_has_the_keys_of_the_tables(everything):
    _, header = everything
    check_keys([header], *keys("Header"))
    check_keys(header["blobs"], *keys("Header", 1))


def test_episodes_have_the_keys_of_the_tables(everything):
    _, header = everything
    check_keys(header["episodes"], *keys("Episode"))
    check_keys([info for episode in header["episodes"] for info in episode["infos"]], *keys("Episode", 1))


def test_array_records_have_the_keys_of_the_table(everything):
    pytest.importorskip("ml_dtypes")
    _, header = everything
    always, every = keys("Array record")
    check_keys(list(array_records(header)), always, every)
    column = {codes(cells[0])[0] for cells in tables(section(FORMAT, "Array record"))[0] if "column" in cells[1]}
    assert all(always | column <= set(record) for record in header["columns"])


def test_every_document_begins_with_format_and_seal(everything):
    _, every = keys("Documents")
    for document in everything:
        assert list(document)[:2] == sorted(every, reverse=True)


# ---- FORMAT.md: dtypes and limits


def test_the_dtypes_of_the_table_are_those_that_are_stored():
    rows = [codes(cells[0]) for cells in tables(section(FORMAT, "Dtypes"))[0]]
    plain = {name for row in rows[:5] for name in row}
    assert {"<U5", "|S5"} == {name for row in rows[5:7] for name in row}
    ((structure,),) = rows[7:]
    numpys = {np.dtype(kind) for kind in np.typecodes["All"] if kind not in "SUV"}
    assert plain == {dtype.name for dtype in numpys if values.storable_dtype(dtype) is not None}
    for name in (*plain, "<U5", "|S5", structure):
        dtype = values.parse_dtype(name)
        assert values.storable_dtype(dtype) == dtype
        assert values.dtype_text(dtype) == name


def test_the_views_of_the_table_are_those_that_are_known():
    rows = tables(section(FORMAT, "Dtypes"))[1]
    assert {view: codes(cells[1])[0] for cells in rows for view in codes(cells[0])} == values.VIEWS


def test_the_limits_of_the_table_are_those_of_the_code():
    assert {cells[0]: int(cells[1]) for cells in tables(section(FORMAT, "Untrusted bytes"))[0]} == {
        "bytes of a document": format.MAX_JSON_BYTES,
        "dimensions of an array": format.MAX_NDIM,
        "characters of a dtype": values.MAX_DTYPE_TEXT,
        "bits of an integer": values.MAX_INT_BITS,
        "containers (dict, list, tuple) of one value, one inside another": values.MAX_DEPTH,
    }


# ---- FORMAT.md: the example


@pytest.fixture(scope="module")
def example():
    """The files of the example, their bytes by name."""
    files = {}
    found = re.findall(r"^`(openaigym[^`]+)`:\n\n```\w*\n(.*?)^```$", section(FORMAT, "Example"), re.M | re.S)
    for name, text in found:
        hexadecimal = "".join(line[10:58] for line in text.splitlines()) if name.endswith(".bin") else None
        files[name] = text.encode("ascii") if hexadecimal is None else bytes.fromhex(hexadecimal)
    assert {format.parse_name(name).kind for name in files} == {"manifest", "header", "blob"}
    return files


def prefix(names):
    """What the names of a trace begin with."""
    (trace,) = {format.parse_name(name).trace for name in names}
    return trace


def hexdump(data):
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        halves = (" ".join(f"{byte:02x}" for byte in half) for half in (row[:8], row[8:]))
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {'  '.join(halves):<48}  |{text}|\n")
    return "".join(lines)


def record_example(directory):
    """Records what the example holds; returns the bytes of the files by name."""
    with TraceRecording(directory, env={"id": "Tiny-v0"}) as recording:
        recording.add_reset(np.array([1, 2, 3], "uint8"), seed=7)
        recording.add_step(0, np.array([4, 5, 6], "uint8"), 1.0, terminated=False, truncated=False)
        recording.add_step(1, np.array([7, 8, 9], "uint8"), 0.5, terminated=True, truncated=False)
        recording.add_reset(np.array([10, 11, 12], "uint8"))
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def as_in_the_example(document, example, trace):
    """A document with what differs from recording to recording as the example has it."""
    text = document.decode("ascii").replace(trace, prefix(example))
    times = iter(["2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:06.000000Z"])
    text = re.sub(r"2\d\d\d-\d\d-\d\dT[0-9:.]+Z", lambda _: next(times), text)
    text = re.sub(r'"writer": \{.*?\}', '"writer": {"package": "gym_recording 1.0.0"}', text)
    return re.sub(r'"crc32": "[0-9a-f]{8}"', '"crc32": "00000000"', text, count=1).encode("ascii")


def test_the_example_is_what_is_written(example, tmp_path):
    written = record_example(tmp_path)
    trace = prefix(written)
    assert {name.replace(trace, prefix(example)) for name in written} == set(example)
    for name, data in written.items():
        expected = example[name.replace(trace, prefix(example))]
        if name.endswith(".bin"):
            assert data == expected
            assert hexdump(expected) in FORMAT
        else:
            unsealed = re.sub(rb'"crc32": "[0-9a-f]{8}"', b'"crc32": "00000000"', expected, count=1)
            assert as_in_the_example(data, example, trace) == unsealed


def test_the_seals_and_checksums_of_the_example_are_what_the_text_says(example):
    (pattern,) = (code for code in codes(section(FORMAT, "Documents")) if code.startswith('"crc32"'))
    for name, data in example.items():
        if name.endswith(".json"):
            seal = re.search(pattern.encode("ascii"), data)
            zeroed = data[: seal.start(1)] + b"00000000" + data[seal.end(1) :]
            assert seal[1] == b"%08x" % zlib.crc32(zeroed)
            for blob in json.loads(data).get("blobs", []):
                assert blob["size"] == len(example[blob["fn"]])
                assert blob["crc32"] == f"{zlib.crc32(example[blob['fn']]):08x}"


def test_the_example_reads_as_its_table_says(example, tmp_path):
    for name, data in example.items():
        (tmp_path / name).write_bytes(data)
    reader = TraceRecordingReader(tmp_path, verify=True)
    (trace,) = reader.traces
    assert (trace.created, trace.closed, trace.env) == ("2026-01-02T03:04:05.000000Z", True, {"id": "Tiny-v0"})
    rows = tables(section(FORMAT, "Example"))[0]
    assert len(rows[0]) == 1 + len(reader)
    for attribute, *cells in rows:
        for episode, cell in zip(reader, cells):
            found = getattr(episode, codes(attribute)[0])
            if isinstance(found, np.ndarray):
                found = f"{found.dtype} {found.tolist()}"
            assert (found if isinstance(found, str) else json.dumps(found)) == codes(cell)[0]


def test_np_load_reads_the_columns_of_the_example(example, tmp_path):
    (blob,) = (name for name in example if name.endswith(".bin"))
    (tmp_path / blob).write_bytes(example[blob])
    assert np.load(tmp_path / blob)[[0, 1, 2, 8]].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    with open(tmp_path / blob, "rb") as file:
        file.seek(192)
        assert np.load(file).tolist() == [0, 1]
