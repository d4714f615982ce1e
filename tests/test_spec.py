"""The documents say what is so: their snippets run, their tables equal the code, their example is a recording."""

import ast
import contextlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_spaces import SPACES

import gym_recording
from gym_recording import (
    Episode,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    format,
    rebuild,
    repair,
    spaces,
    stream,
    values,
)
from gym_recording.check import check_recording
from gym_recording.cli import main
from gym_recording.environment import describe

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


def test_the_snippet_of_the_readme_for_pytorch_runs(tmp_path):
    data = pytest.importorskip("torch.utils.data")
    with TraceRecording(tmp_path, durability="none") as recording:
        for _ in range(3):
            recording.add_reset(np.zeros(4, "float32"))
            for step in range(200):
                recording.add_step(step, np.full(4, step, "float32"), 1.0, terminated=step == 199, truncated=False)
    (snippet,) = blocks(README, "py")
    draws, *loaders = snippet.splitlines()[1], *(line.partition("  #")[0] for line in snippet.splitlines()[::2])
    names = {**vars(data), "reader": TraceRecordingReader(tmp_path)}
    exec(draws, names)
    sizes = [[len(batch.rewards) for batch in eval(loader, names)] for loader in loaders]
    assert sizes == [[256, 256, 88]] * 2


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
    assert ran == {"record", "info", "check", "repair", "replay", "merge", "select"}
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
        assert codes(usage)[0].replace("...", "").split()[1:] == re.findall(r"^  ([A-Z_]+)(?:  |$)", help_text, re.M)


def test_the_readme_names_every_option_of_the_recorder_and_its_default():
    parameters = inspect.signature(TraceRecording).parameters.values()
    options = {one.name: repr(one.default).replace("'", '"') for one in parameters if one.name != "directory"}
    assert {codes(cells[0])[0]: codes(cells[1])[0] for cells in tables(section(README, "Options"))[0]} == options


def test_the_readme_says_what_each_durability_guarantees(tmp_path):
    (meaning,) = (cells[2] for cells in tables(section(README, "Options"))[0] if cells[0] == "`durability`")
    (head,) = re.findall(r"^\| after \|.*$", README, re.M)
    settings = re.findall(r'`durability="(\w+)"`', head)
    assert [f'"{setting}"' for setting in settings] == codes(meaning)
    for setting in settings:
        TraceRecording(tmp_path, durability=setting).close()
    with pytest.raises(TraceError) as caught:
        TraceRecording(tmp_path, durability="other")
    assert re.findall(r'"(\w+)"', caught.value.expected) == settings  # and there are no more


def test_a_repair_exits_as_the_readme_says(streamed, tmp_path, capsys):
    meanings = {int(cells[0]): cells[1] for cells in tables(section(README, "Commands"))[1]}
    directory = shutil.copytree(streamed / "running", tmp_path / "running")
    first, second, absent = (main(["repair", os.fspath(path)]) for path in (directory, directory, tmp_path / "absent"))
    assert meanings[first] == "`repair`: recovered, but something was lost; it says what"
    assert meanings[second].startswith("all is well")
    assert meanings[absent].startswith("something failed")
    assert "lost: " in capsys.readouterr().out


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
    (first,) = re.findall(r"`NAME` for a name of the first (\w+) kinds", text)
    assert first == "four"
    patterns = {kind: codes(pattern)[0].replace("TRACE", trace) for kind, pattern, _ in tables(text)[0]}
    name = "(?:" + "|".join(list(patterns.values())[:4]) + ")"
    examples = {kind: codes(example)[0] for kind, _, example in tables(text)[0]}
    return {k: (re.compile(p.replace("NAME", name), re.ASCII), examples[k]) for k, p in patterns.items()}


def neighbours(name):
    """Names that differ in one place."""
    for at in range(len(name) + 1):
        for text in ("", "0", "a", "g", "-", ".", "/", "\n", "٣"):
            yield name[:at] + text + name[at:]
            yield name[:at] + text + name[at + 1 :]


def kinds(name):
    """What the package takes a file of a name for."""
    parsed = format.parse_name(name)
    if parsed is not None:
        yield parsed.kind
    if format.parse_lock(name) is not None:
        yield "lock"
    if format.parse_name(format.parse_temporary(name) or "") is not None:
        yield "temporary"


@pytest.mark.parametrize("kind", ["manifest", "header", "blob", "streamed blob", "lock", "temporary"])
def test_a_name_is_ours_if_and_only_if_the_pattern_of_its_kind_matches(kind):
    rows = name_rows()
    names = [rows[kind][1]]
    names += [example for _, example in rows.values()]
    names += [example.replace("-0123456789ab", "") for example in names]
    names += [f"openaigym.trace.0.1.ep{'0' * digits}.json" for digits in (8, 18, 19)]
    names += [f"openaigym.trace.{'0' * digits}.{'0' * digits}.manifest.json" for digits in (20, 21)]
    names += [f"openaigym.trace.{'0' * digits}-0123456789ab.lock" for digits in (20, 21)]
    names += [f"openaigym.trace.0.1.ep000000000.{number}.bin" for number in ("0", "123456", "1234567", "a")]
    names += [name for example in names[:1] for name in neighbours(example)]
    for name in names:
        expected = {one for one, (pattern, _) in rows.items() if pattern.fullmatch(name)}
        assert len(expected) <= 1
        assert set(kinds(name)) == {one.replace("streamed blob", "blob") for one in expected}, name


def test_the_names_that_are_written_are_the_examples():
    trace = format.trace_name(0, "4711-0123456789ab")
    examples = {kind: example for kind, (_, example) in name_rows().items()}
    assert examples.pop("temporary") == f".{format.manifest_name(trace)}.ba9876543210.tmp"
    assert examples == {
        "manifest": format.manifest_name(trace),
        "header": format.header_name(trace, 0),
        "blob": format.blob_name(trace, 0),
        "streamed blob": format.blob_name(trace, 0, 3),
        "lock": format.lock_name("4711-0123456789ab"),
    }


def test_every_file_is_made_under_a_name_of_the_table(tmp_path, monkeypatch):
    names = set()
    opened = os.open

    def open_and_note(path, *arguments, **options):
        names.add(os.path.basename(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", open_and_note)
    with TraceRecording(tmp_path, flush_interval=0) as recording:
        recording.add_reset(np.zeros(3))
        recording.add_reset("go", options={"array": np.zeros(3)})
        recording.add_step(0, "gone", 0.0)
    rows = name_rows()
    made = {kind for kind, (pattern, _) in rows.items() if any(map(pattern.fullmatch, names))}
    assert made == set(rows) - {"manifest", "header", "blob"}  # those are put: they are renamed to their names
    ours = [name for name in names if "openaigym" in name]
    assert all(any(pattern.fullmatch(name) for pattern, _ in rows.values()) for name in ours)
    temporaries = {format.parse_name(format.parse_temporary(n)).kind for n in ours if format.parse_temporary(n)}
    assert temporaries == {"manifest", "header", "blob"}


# ---- FORMAT.md: keys


class Discrete:
    n, start = 2, 0


Discrete.__module__ = "gym.spaces.discrete"


FRAME = np.zeros((2, 2), "uint8")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The manifest and the header of a recording in which everything is switched on."""
    directory = tmp_path_factory.mktemp("everything")
    wrappers = [SimpleNamespace(entry_point="some:Wrapper", kwargs={})]
    spec = SimpleNamespace(id="Some-v0", entry_point="some:Env", kwargs={"size": 3}, max_episode_steps=10)
    spec.additional_wrappers = wrappers
    metadata = {"render_fps": 30}
    env = SimpleNamespace(spec=spec, metadata=metadata, observation_space=Discrete(), action_space=Discrete())
    options = {"infos": True, "timestamps": True, "frames": True, "metadata": {"by": "me"}, "library": "gym 0.26.2"}
    with TraceRecording(directory, env=describe(env), **options) as recording:
        recording.lane.number = 1
        recording.add_step(0, np.zeros(3, "uint8"), 0.0)  # before a reset: headless
        recording.add_reset(np.zeros(3, "uint8"), seed=3, options={"array": np.zeros(2)}, info={"lives": 3})
        with pytest.raises(TraceError):
            recording.add_step(0, object(), 0.0)  # a gap
        observation = np.zeros(3, "uint8")
        recording.add_step(0, observation, 0.0, terminated=True, truncated=False, info={"lives": 2}, frame=FRAME)
        with contextlib.suppress(ImportError):
            import ml_dtypes

            recording.add_reset(np.zeros(3, ml_dtypes.bfloat16))
    (manifest,) = directory.glob("*.manifest.json")
    (header,) = directory.glob("*.ep*.json")
    return json.loads(manifest.read_bytes()), json.loads(header.read_bytes())


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    """A folder of recordings: one whose only episode runs, `running`; the same later, `changed`; and `ended`.

    In `changed` the actions are no numbers any more.
    """
    root = tmp_path_factory.mktemp("streamed")
    with TraceRecording(root / "ended", flush_interval=1e-9, infos=True, timestamps=True) as recording:
        recording.add_reset({"image": np.zeros(3, "uint8"), "text": "go"}, options={"array": np.zeros(2)})
        recording.add_step(0, {"image": np.ones(3, "uint8"), "text": "there"}, 0.5, info={"lives": 3})
        recording.save_complete()
        shutil.copytree(root / "ended", root / "running")
        observation = {"image": np.full(3, 2, "uint8"), "text": np.ones(5)}
        recording.add_step("back", observation, 0.25, terminated=True, truncated=False)
        recording.save_complete()
        shutil.copytree(root / "ended", root / "changed")
    return root


@pytest.fixture(scope="module")
def repaired(streamed, tmp_path_factory):
    """`running`, repaired."""
    directory = shutil.copytree(streamed / "running", tmp_path_factory.mktemp("repaired") / "recording")
    (temporary,) = (example for kind, (_, example) in name_rows().items() if kind == "temporary")
    ours = format.token_of(format.parse_name(next(directory.glob("*.ep*.json")).name).trace)
    (directory / temporary.replace("4711-0123456789ab", ours)).write_bytes(b"cut")
    assert repair.repair_recording(os.fspath(directory)).failed == []
    return directory


def documents(directory, kind):
    """The manifests or headers of a recording."""
    names = sorted(os.listdir(directory))
    ours = [name for name in names if (format.parse_name(name) or (None, None))[1] == kind]
    return [json.loads((directory / name).read_bytes()) for name in ours]


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


def test_a_manifest_has_the_keys_of_the_tables(everything, repaired):
    manifest, _ = everything
    check_keys([manifest, *documents(repaired, "manifest")], *keys("Manifest"))
    check_keys(manifest["batches"], *keys("Manifest", 1))
    check_keys([manifest["env"]], *keys("Manifest", 3))
    always, every = keys("Manifest", 2)
    check_keys([manifest["writer"]], always, every if "boot" in manifest["writer"] else every - {"boot"})


def test_the_spaces_of_the_table_are_those_that_are_written_and_rebuilt():
    rows = tables(section(FORMAT, "Manifest"))[4]
    members = {kind: set(codes(cells[1])) for cells in rows for kind in codes(cells[0])}
    assert set(members) == set(spaces._WRITERS) == set(rebuild._READERS)
    for written in (written for _, written in SPACES.values()):
        assert set(written) - {"type"} <= members[written["type"]]


def test_a_header_has_the_keys_of_the_tables(everything, streamed):
    _, header = everything
    headers = [header, *documents(streamed / "running", "header"), *documents(streamed / "ended", "header")]
    check_keys(headers, *keys("Header"))
    check_keys([blob for header in headers for blob in header["blobs"]], *keys("Header", 1))
    assert ["start" in blob for blob in headers[0]["blobs"]] == [False]


def test_episodes_have_the_keys_of_the_tables(everything, streamed):
    _, header = everything
    (running,) = documents(streamed / "running", "header")
    check_keys(header["episodes"] + running["episodes"], *keys("Episode"))
    assert ["ended_by" in episode for episode in header["episodes"]] == [True] * len(header["episodes"])
    assert set(running["episodes"][0]) & {"terminated", "truncated", "ended_by"} == set()
    for table, member in enumerate(("infos", "frames"), 1):
        check_keys([one for episode in header["episodes"] for one in episode[member]], *keys("Episode", table))


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


# ---- FORMAT.md: streamed batches, locks, repair


def test_the_blobs_of_a_streamed_batch_are_as_its_section_says(streamed):
    assert f"10^{len(str(stream._MANY_ROWS)) - 1}" in section(FORMAT, "Streamed batches")
    for state, rows in (("running", 2), ("changed", 3), ("ended", 3)):
        (header,) = documents(streamed / state, "header")
        (episode,) = header["episodes"]
        blobs = {blob["fn"]: blob for blob in header["blobs"]}
        pattern = name_rows()["streamed blob"][0]
        assert all(map(pattern.fullmatch, blobs))
        assert {path.name for path in (streamed / state).glob("*.bin")} == set(blobs)  # old ones are gone
        for name, blob in blobs.items():
            data = (streamed / state / name).read_bytes()
            assert len(data) == blob["size"]
            assert blob["crc32"] == f"{zlib.crc32(data[blob.get('start', 0) :]):08x}"
        for column in header["columns"]:
            path, start = streamed / state / column["npyfile"], column["npyoff"]
            shape = (10**18, *column["shape"][1:])
            text = f"{{'descr': '{np.dtype(column['dtype']).str}', 'fortran_order': False, 'shape': {shape}, }}\n"
            assert (column["npyhdr"], start) == (0, -(-(10 + len(text)) // 64) * 64)
            assert blobs.pop(path.name)["start"] == start
            loaded = np.load(path)
            assert list(loaded.shape) == [column["shape"][0] if state == "ended" else 0, *column["shape"][1:]]
            if state == "ended":
                assert loaded.tobytes() == path.read_bytes()[start:]
        (loose,) = blobs.values()  # what is left, of all loose arrays
        assert "start" not in loose
        assert episode["observations"]["image"]["shape"] == [rows, 3]
        assert (episode["actions"] == [0, "back"]) == (state != "running")
        assert check_recording(streamed / state) == []


def test_a_reader_follows_a_streamed_episode(streamed):
    reader = TraceRecordingReader(streamed / "running", verify=True)
    assert (len(reader), len(reader[0]), reader[0].ended_by, reader[0].terminated) == (1, 1, None, None)
    reader.directory = os.fspath(streamed / "ended")
    assert (len(reader), len(reader[0]), reader[0].ended_by, reader[0].terminated) == (1, 2, "terminated", True)


def test_records_of_the_same_bytes_count_once(tmp_path):
    same = float("nan")
    with TraceRecording(tmp_path, flush_interval=1e-9, durability="none") as recording:
        recording.add_reset(None)
        for _ in range(40):
            recording.add_step(0, same, 0.0)
    (header,) = documents(tmp_path, "header")
    records = list(array_records(header["episodes"][0]["observations"]))
    assert len(records) == 40
    assert len({record["npyoff"] for record in records}) == 1
    assert np.isnan(TraceRecordingReader(tmp_path)[0].observations[1:]).all()
    assert check_recording(tmp_path) == []


def test_a_lock_has_the_keys_of_the_table(tmp_path):
    found = []
    for options in ({}, {"buffer_batch_size": 5}):
        directory = tmp_path / str(len(options))
        with TraceRecording(directory, **options):
            (name,) = os.listdir(directory)
            assert name_rows()["lock"][0].fullmatch(name)
            found.append(json.loads((directory / name).read_bytes()))
        assert os.listdir(directory) == []
    check_keys(found, *keys("Locks"))
    assert found[0]["flush_interval"] == 30
    assert repair._INTERVALS == 10
    assert "ten times its `flush_interval`" in section(FORMAT, "Locks")


def test_a_repair_changes_what_its_section_says_and_no_more(streamed, repaired):
    before, after = ({p.name: p.read_bytes() for p in path.iterdir()} for path in (streamed / "running", repaired))
    (manifest,) = documents(repaired, "manifest")
    assert "closed" not in manifest
    assert [entry["len"] for entry in manifest["batches"]] == [1]
    (old,), (new,) = (documents(path, "header") for path in (streamed / "running", repaired))
    assert new["episodes"] == [{**old["episodes"][0], "ended_by": "crash"}]
    assert {**new, "crc32": 0, "episodes": 0} == {**old, "crc32": 0, "episodes": 0}
    for blob in new["blobs"]:
        assert before[blob["fn"]][blob.get("start", 0) :] == after[blob["fn"]][blob.get("start", 0) :]
    for column in new["columns"]:
        assert list(np.load(repaired / column["npyfile"]).shape) == column["shape"]
    assert {kind for name in after for kind in kinds(name)} == {"manifest", "header", "blob"}  # no lock, no temporary
    assert check_recording(repaired) == []
    again = repair.repair_recording(os.fspath(repaired))
    assert (again.done, again.lost, again.failed) == ([], [], [])
    assert {path.name: path.read_bytes() for path in repaired.iterdir()} == after


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
        "episodes of a batch": format.MAX_EPISODES,
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
