"""The shape of the package: who may import whom, how long a module is, what must never be in one."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gym_recording

PACKAGE = Path(gym_recording.__file__).parent
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}

# What each module may import from the package when it is loaded: lower layers, never its own or a higher one.
LAYERS = [
    {"errors", "memory"},
    {"values", "files", "episode", "lock"},
    {"format", "rows", "spaces", "process"},
    {"columns", "layout", "options", "rebuild"},
    {"batch", "header"},
    {"stream", "sparse"},
    {"lane"},
    {"trace"},
    {"environment"},
    {"recording", "index", "outline"},
    {"source", "summary"},
    {"selection", "steps"},
    {"transitions"},
    {"windows"},
    {"playback"},
    {"wrappers.api", "wrappers.adopted"},
    {"wrappers.autoreset", "wrappers.lanes"},
    {"wrappers.trace_recording", "wrappers.vector", "wrappers.adapter"},
    {"wrappers.dm_env", "wrappers.agents"},
    {"wrappers.pettingzoo"},
    {"wrappers"},
    {"difference", "position"},
    {"check", "info", "plot", "test_recording", "replaying", "playback_env", "video", "viewer.page"},
    {"repair", "copying", "merging", "viewer.server"},
    {"viewer"},
    {"cli"},
    {"__main__"},
]
WRAPPERS = {
    "wrappers",
    "wrappers.adapter",
    "wrappers.agents",
    "wrappers.adopted",
    "wrappers.api",
    "wrappers.autoreset",
    "wrappers.dm_env",
    "wrappers.lanes",
    "wrappers.pettingzoo",
    "wrappers.trace_recording",
    "wrappers.vector",
}
WRITING = {"columns", "sparse", "lane", "stream", "process", "trace", "recording", *WRAPPERS}
READING = {
    "header",
    "index",
    "outline",
    "source",
    "summary",
    "selection",
    "steps",
    "transitions",
    "windows",
    "playback",
    "check",
    "info",
    "plot",
    "video",
}
KNOWS_GYM = {"spaces", "rebuild", "environment", "playback_env", *WRAPPERS}
BY_NAME = {"cli", "replaying", "test_recording"}  # make environments, and so import the library that they are asked for
STANDARD_OR_NUMPY = {"numpy", "isal"}  # isal is tried, and zlib does where it is absent


def names(tree):
    """The imports of a module: `(node, name of what is imported, whether that is of the package)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "", node.level > 0


def is_for_types(tree, node):
    """Whether an import stands below `if TYPE_CHECKING`, so that it never happens."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    return any(node is inner for block in blocks for inner in ast.walk(block))


def is_in_function(tree, node):
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    return any(node is inner for function in functions for inner in ast.walk(function))


def siblings(module):
    """The modules of the package that a module imports when it is loaded or later."""
    tree = MODULES[module]
    is_package = (PACKAGE / module.replace(".", "/")).is_dir()
    found = set()
    for node, name, own in names(tree):
        if not own or is_for_types(tree, node):
            continue
        parts = module.split(".") if is_package else module.split(".")[:-1]
        base = parts[: len(parts) - node.level + 1]
        whole = ".".join([*base, *([name] if name else [])])
        found |= {whole} if whole in MODULES else set()
        for alias in node.names:
            inner = f"{whole}.{alias.name}" if whole else alias.name
            found |= {inner} if inner in MODULES else set()
    return found


def test_every_module_has_its_layer():
    assert {module for layer in LAYERS for module in layer} >= set(MODULES) - {
        "__init__",
        "wrappers.__init__",
        "viewer.__init__",
    }


@pytest.mark.parametrize("module", [m for layer in LAYERS for m in sorted(layer) if m in MODULES])
def test_imports_point_to_lower_layers_only(module):
    height = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    assert {name for name in siblings(module) if height[name] >= height[module]} == set()


def test_writer_and_reader_never_import_each_other():
    for module in set(MODULES) & (WRITING | READING):
        others = READING if module in WRITING else WRITING
        seen, left = set(), {module}
        while left:
            seen |= left
            left = {name for one in left for name in siblings(one)} - seen
        assert seen & others == set(), module


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_a_gym_or_anything_optional_when_it_is_loaded(module):
    tree = MODULES[module]
    foreign = {
        name.partition(".")[0]
        for node, name, own in names(tree)
        if not own and not is_for_types(tree, node) and not is_in_function(tree, node)
    }
    standard = set(getattr(sys, "stdlib_module_names", foreign))  # Python 3.10 and later know it
    assert foreign - standard - STANDARD_OR_NUMPY - {"__future__"} == set()
    assert foreign & {"gym", "gymnasium"} == set()


@pytest.mark.parametrize("module", sorted(set(MODULES) - KNOWS_GYM - BY_NAME))
def test_only_the_wrappers_and_what_describes_environments_know_gym(module):
    words = {node.id for node in ast.walk(MODULES[module]) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(MODULES[module]) if isinstance(node, ast.Attribute)}
    assert words & {"action_space", "observation_space", "unwrapped", "gym", "gymnasium"} == set()
    assert {name for _, name, own in names(MODULES[module]) if name in ("gym", "gymnasium") and not own} == set()


def test_importing_the_package_loads_next_to_nothing():
    program = "import sys, gym_recording; print({m.split('.')[0] for m in sys.modules} & {'numpy', 'gym', 'gymnasium'})"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, encoding="utf-8")
    assert done.stdout == "set()\n"


def test_recording_and_reading_load_numpy_and_the_standard_library_alone():
    program = """
import sys
before = set(sys.modules)
import numpy
with_numpy = set(sys.modules)
import gym_recording.recording, gym_recording.playback, gym_recording.wrappers
new = {name.partition(".")[0] for name in set(sys.modules) - with_numpy}
print(sorted(new - set(getattr(sys, "stdlib_module_names", new)) - {"gym_recording", "isal"}))
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, encoding="utf-8")
    assert done.stdout == "[]\n"


# ---- what is in a module


@pytest.mark.parametrize("module", MODULES)
def test_modules_stay_small(module):
    path = PACKAGE / (module.replace(".", "/") + ".py")
    assert len(path.read_text("utf-8").splitlines()) <= 400


@pytest.mark.parametrize("module", MODULES)
def test_a_module_opens_with_at_most_ten_lines_on_its_job(module):
    assert 1 <= len(ast.get_docstring(MODULES[module]).splitlines()) <= 10


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_and_class_has_a_docstring(module):
    for node in MODULES[module].body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{module}.{node.name}"


FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal", "mock"}
FORBIDDEN_CALLS = {"tofile", "eval", "exec", "fromfile"}


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_there_that_must_never_be(module):
    tree = MODULES[module]
    assert {name.partition(".")[0] for _, name, _ in names(tree)} & FORBIDDEN_MODULES == set()
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert {getattr(f, "attr", getattr(f, "id", "")) for f in calls} & FORBIDDEN_CALLS == set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{module}:{node.lineno}: a bare except"
            assert not all(isinstance(inner, ast.Pass) for inner in node.body), f"{module}:{node.lineno}: except … pass"


@pytest.mark.parametrize("module", MODULES)
def test_numpy_is_never_allowed_to_unpickle(module):
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert getattr(node.value, "value", None) is False


PAGE = sorted((PACKAGE / "viewer").glob("*.js"))
MAKES_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"
)


@pytest.mark.parametrize("path", PAGE, ids=[path.name for path in PAGE])
def test_modules_of_the_page_are_small_say_their_job_and_make_no_html_of_text(path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    assert text.startswith("/**")
    assert not MAKES_HTML.search(text)
    assert not re.search(r"\beval\(|new Function", text)


def test_the_public_names_are_there():
    for name in gym_recording.__all__:
        assert getattr(gym_recording, name) is not None
    assert set(gym_recording.__all__) <= set(dir(gym_recording))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gym_recording.nothing  # noqa: B018
