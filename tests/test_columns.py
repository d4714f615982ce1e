"""The rows of one leaf: kept exactly, decided per episode, cut back as if nothing had been."""

import copy
import tracemalloc

import numpy as np
import pytest
from cases import FEW_KINDS, KINDS, REFUSED, plain

from gym_recording import DictColumns, TraceError, TupleColumns, optimize_list_of_ndarrays
from gym_recording.columns import Column


def new():
    return Column(("observations",))


def rows_of(values):
    """The rows of a kind, each of its own, also where one buffer is overwritten."""
    return [copy.deepcopy(row) for row in values.rows()]


def add(column, rows):
    for row in rows:
        column.add(row)


def finished(column):
    """The rows as a reader gives them, without the files between."""
    return plain(as_read(column.finish()))


def as_read(rows):
    if isinstance(rows, dict):
        return DictColumns((key, as_read(column)) for key, column in rows.items())
    if isinstance(rows, tuple):
        return TupleColumns(tuple(map(as_read, rows)))
    return [without_python_only_numbers(row) for row in rows] if isinstance(rows, list) else np.asarray(rows)


def without_python_only_numbers(value):
    """JSON has no complex numbers, NaN or infinities: they are read as NumPy's."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_python_only_numbers, value))
    if isinstance(value, dict):
        return {key: without_python_only_numbers(item) for key, item in value.items()}
    is_json = not isinstance(value, (float, complex)) or (isinstance(value, float) and np.isfinite(value))
    return value if is_json or isinstance(value, np.generic) else np.asarray(value)[()]


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_finished_as_they_are_read(name):
    column = new()
    add(column, KINDS[name].rows())
    assert len(column) == len(KINDS[name].back)
    assert finished(column) == plain(KINDS[name].back)


@pytest.mark.parametrize("first", FEW_KINDS)
def test_the_episode_before_decides_nothing(first):
    for name, values in FEW_KINDS.items():
        column = new()
        add(column, FEW_KINDS[first].rows())
        column.clear()
        add(column, values.rows())
        assert (name, finished(column)) == (name, plain(values.back))


OTHERS = [
    None,
    "text",
    1,
    0.5,
    True,
    np.float32(1),
    np.zeros(2),
    np.zeros((60, 60, 3), "uint8"),
    [1],
    {},
    {"a": 1},
    (),
    (1,),
]
OTHERS += [{"image": 1, "vector": 2, "n": None}, {"a": None}, {"a": {"b": "text"}}, ("text", 1), 2**70]


@pytest.mark.parametrize("name", FEW_KINDS)
def test_what_is_cut_back_leaves_no_trace(name):
    values = FEW_KINDS[name]
    rows = rows_of(values)
    for count in range(len(rows) + 1):
        for other in [*OTHERS, *rows]:
            column = new()
            add(column, rows[:count])
            add(column, [other, other])
            column.cut(count)
            assert len(column) == count
            add(column, rows[count:])
            assert finished(column) == plain(values.back)


BAD = [
    object(),
    [object()],
    {"image": 1, "vector": object(), "n": 2},
    {"a": object()},
    {"a": {"b": [object()]}},
    (1, object()),
]
BAD += [{"a": 1, "b": object()}, {"b": object()}, (object(),), np.array([None]), {object(): 1}]


@pytest.mark.parametrize("name", FEW_KINDS)
def test_a_value_that_is_refused_leaves_no_trace_after_a_cut(name):
    values = FEW_KINDS[name]
    rows = rows_of(values)
    for count in range(len(rows) + 1):
        for bad in BAD:
            column = new()
            add(column, rows[:count])
            with pytest.raises(TraceError, match="observations"):
                column.add(bad)
            column.cut(count)
            assert len(column) == count
            add(column, rows[count:])
            assert finished(column) == plain(values.back)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_value_is_refused_at_every_step_and_named_by_its_path(name):
    value, message = REFUSED[name]
    for before in ([], [1], [0.5], ["text"], [np.zeros(3)], [{"a": 1}], [(1, 2)]):
        column = new()
        add(column, before)
        with pytest.raises(TraceError) as caught:
            column.add(value)
        assert message in str(caught.value)
        column.cut(len(before))
        assert len(column) == len(before)


@pytest.mark.parametrize("name", KINDS)
def test_rows_can_be_looked_at_while_they_are_added(name):
    values = KINDS[name]
    column = new()
    for number, row in enumerate(values.rows()):
        column.add(row)
        assert len(column) == number + 1
        again = new()
        add(again, [column[index] for index in range(len(column))])
        assert finished(again) == finished(column)


def test_nothing_is_finished_as_float64_without_rows():
    column = new()
    assert finished(column) == plain(np.empty(0, "float64"))
    column.add(np.float32(1))
    column.clear()
    assert finished(column) == plain(np.empty(0, "float64"))


# ---- large rows, which are kept in blocks that are used again


def frame(number, rows=64):
    return np.full((rows, 64, 3), number, "uint8")


@pytest.mark.parametrize("rows", [64, 500, 6000])
def test_the_rows_of_an_episode_stay_what_they_are_while_later_ones_are_added(rows):
    column = new()
    kept = []
    for episode in range(5):
        add(column, [frame(10 * episode + step, rows) for step in range(7)])
        kept.append(column.finish())
        column.clear()
    for episode, array in enumerate(kept):
        assert array.shape == (7, rows, 64, 3)
        assert [row.tobytes() for row in array] == [frame(10 * episode + step, rows).tobytes() for step in range(7)]


def test_rows_that_were_looked_at_stay_what_they_are():
    column = new()
    add(column, [frame(step, 3000) for step in range(4)])
    kept = [column[step] for step in range(4)]
    column.finish()
    column.clear()
    add(column, [frame(9, 3000)] * 8)
    assert [row[0, 0, 0] for row in kept] == [0, 1, 2, 3]


def test_the_memory_of_large_rows_is_used_again():
    column = new()
    row = frame(1, 500)
    tracemalloc.start()
    for _ in range(50):
        add(column, [row] * 20)  # 2 MB
        assert len(column.finish()) == 20
        column.clear()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_rows_are_joined_only_when_asked():
    column = new()
    add(column, [frame(step, 3000) for step in range(5)])
    rows = column.finish()
    assert rows.nbytes == 5 * frame(0, 3000).nbytes
    assert np.asarray(rows).tobytes() == b"".join(frame(step, 3000).tobytes() for step in range(5))
    assert np.asarray(rows, dtype="int16").dtype == np.int16
    assert [row[0, 0, 0] for row in rows] == [0, 1, 2, 3, 4]
    assert [rows[-1][0, 0, 0], rows[1][0, 0, 0]] == [4, 1]
    assert rows[1:3, 0, 0, 0].tolist() == [1, 2]
    with pytest.raises(IndexError):
        rows[5]


# ---- the function of 2016 that does the same for a list


@pytest.mark.parametrize("name", [name for name, values in KINDS.items() if isinstance(values.back, np.ndarray)])
def test_a_list_is_optimized_to_the_array_that_would_be_recorded(name):
    assert plain(optimize_list_of_ndarrays(rows_of(KINDS[name]))) == plain(KINDS[name].back)


@pytest.mark.parametrize("name", [name for name, values in KINDS.items() if not isinstance(values.back, np.ndarray)])
def test_a_list_that_cannot_be_stacked_is_returned_as_it_is(name):
    rows = rows_of(KINDS[name])
    assert optimize_list_of_ndarrays(rows) is rows


def test_a_list_with_what_cannot_be_stored_is_returned_as_it_is():
    rows = [object()]
    assert optimize_list_of_ndarrays(rows) is rows


def test_an_empty_list_is_optimized_to_an_empty_array_and_an_array_to_itself():
    array = np.zeros(3)
    assert optimize_list_of_ndarrays(array) is array
    assert optimize_list_of_ndarrays([]).shape == (0,)


@pytest.mark.parametrize(
    "keys", [(1, True, 1.0, np.int64(1)), (False, 0, 0.0, -0.0), (-0.0, 0.0), (1, 1, np.True_), (None, "None")]
)
@pytest.mark.parametrize("per_episode", [False, True])
def test_keys_are_what_they_were_and_not_what_they_are_equal_to(keys, per_episode):
    column, found = new(), []
    for key in keys:
        column.add({key: 1.5, "a": 2})
        if per_episode:
            found += list(as_read(column.finish()))
            column.clear()
    rows = found if per_episode else list(as_read(column.finish()))
    plain_keys = [key.item() if isinstance(key, np.generic) else key for key in keys]
    assert [[repr(key) for key in row] for row in rows] == [[repr(key), "'a'"] for key in plain_keys]
