"""Statistics of a Delta file: bounds that hold for every value, for all columns of a file or for none."""

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.pipeline.sink.statistics import has_bounds, statistics_of

pa = pytest.importorskip("pyarrow")

TIMES = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
COLUMNS = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats()),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=70) | st.text("a\U0010ffff", max_size=70)),
    "day": (pa.date32(), st.dates()),
    "local": (pa.timestamp("us"), TIMES),
    "money": (pa.decimal128(15, 2), st.decimals(-(10**12), 10**12, places=2)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}), max_size=5)


def comparable(name: str, value: Any) -> Any:
    """Convert a value to what a reader compares: text to its bytes, times to what was written."""
    if name == "text":
        return value.encode()
    if name in ("day", "local"):
        return (datetime.date if name == "day" else datetime.datetime).fromisoformat(value)
    return value


@given(ROWS)
def test_bounds_hold_for_every_value_and_a_file_has_all_of_them_or_none(rows: list[dict[str, Any]]) -> None:
    found = json.loads(statistics_of(pa.Table.from_pylist(rows, SCHEMA), with_bounds=True))
    assert found["numRecords"] == len(rows)
    values = {name: [row[name] for row in rows if row[name] is not None] for name in COLUMNS}
    if "minValues" not in found:
        unbounded = any(not math.isfinite(each) for each in values["float"])
        assert unbounded or any(text[32:33] == "\U0010ffff" for text in values["text"])
        return
    bounded = COLUMNS.keys() - {"bytes"}
    assert found["nullCount"] == {name: len(rows) - len(values[name]) for name in COLUMNS if name in bounded}
    assert found["minValues"].keys() == found["maxValues"].keys() == {name for name in bounded if values[name]}
    for name, lowest in found["minValues"].items():
        low, high = comparable(name, lowest), comparable(name, found["maxValues"][name])
        for value in values[name]:
            each = value.encode() if name == "text" else float(value) if name == "money" else value
            assert low <= each <= high, name


LONG = "é" * 32
HIGHEST = "\U0010ffff"


@pytest.mark.parametrize(
    ("name", "values", "bounds"),
    [
        ("text", [LONG + "z", "a" * 40, None], ["a" * 32, LONG + HIGHEST]),
        ("text", [LONG, ""], ["", LONG]),
        ("text", [LONG + HIGHEST + "z", "a"], None),  # nothing that is short enough is above it
        ("float", [1.5, math.nan], None),  # above every number, and not in JSON
        ("float", [1.5, math.inf], None),
        ("float", [-math.inf, 1.5], None),
        ("float", [0.0, 2.0], ["-0.0", 2.0]),
        ("float", [-0.0, -2.0], [-2.0, "0.0"]),
        (
            "local",
            [datetime.datetime(2026, 1, 1, microsecond=1)] * 2,
            ["2026-01-01T00:00:00.000", "2026-01-01T00:00:00.001"],
        ),
        ("day", [datetime.date(1, 1, 1), None], ["0001-01-01"] * 2),
        ("money", [Decimal("-0.10"), Decimal("9999999999999.99")], [-0.1, 9999999999999.99]),
        ("flag", [True, None], [True, True]),
    ],
)
def test_a_bound_is_never_narrower_than_the_values(name: str, values: list[Any], bounds: list[Any] | None) -> None:
    rows = pa.table({name: pa.array(values, COLUMNS[name][0]), "id": range(len(values))})
    found = json.loads(statistics_of(rows, with_bounds=True))
    if bounds is None:
        assert found == {"numRecords": len(values)}
        return
    shown = [found["minValues"][name], found["maxValues"][name]]
    assert [each if wanted == each else str(each) for each, wanted in zip(shown, bounds, strict=True)] == bounds


@pytest.mark.parametrize(
    ("schema", "configuration", "has_them"),
    [
        (SCHEMA, {}, True),
        (pa.schema([(f"c{index}", pa.int32()) for index in range(33)]), {}, False),
        (SCHEMA, {"delta.dataSkippingNumIndexedCols": "3"}, False),
        (pa.schema([("n", pa.int32()), ("inside", pa.struct([("n", pa.int32())]))]), {}, False),
        (pa.schema([("n", pa.decimal128(38, 2))]), {}, False),
    ],
)
def test_a_table_whose_bounds_others_choose_differently_gets_row_counts_only(
    schema: Any, configuration: dict[str, str], has_them: bool
) -> None:
    assert has_bounds(schema, configuration) is has_them
