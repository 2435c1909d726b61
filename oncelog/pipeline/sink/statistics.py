"""The statistics of a Delta file, by which a reader skips it: row count, minimum, maximum and nulls of each column.

Owns: which columns have them, and their JSON. Does not own: the files (`delta`). Invariants
- A bound may be wider than the values, never narrower: a maximum of text that is cut is above all that begins with it,
  and one of a time is rounded up to the millisecond (Delta's own writers cut it, and readers add one).
- A file has bounds for all columns that delta-rs gives bounds, or for none: where other files of the table have bounds
  for a column and this one has them for other columns only, delta-rs 1.6 compares with null, and leaves out its rows.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

_MOST_COLUMNS = 32
"""The most columns that Delta's writers index by default; a table with more, or with a choice of its own, gets row
counts only."""
_CHOICES = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns")
_TEXT_LENGTH = 32
"""The length of a text bound in characters, as Delta's own writers have it."""
_HIGHEST = "\U0010ffff"
_EXACT_DIGITS = 15
"""The most digits of a decimal bound: bounds are JSON numbers, which delta-rs reads as doubles."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Unbounded(Exception):
    """Raised if a column of this file has no bound that can be written."""


def has_bounds(schema: Any, configuration: Mapping[str, str]) -> bool:
    """Whether files of this table (a pyarrow Schema, Delta's configuration) get more than a row count."""
    return (
        len(schema) <= _MOST_COLUMNS
        and not any(name in configuration for name in _CHOICES)
        and all(_bounds_of(field.type) is not None or _is_never_bounded(field.type) for field in schema)
    )


def statistics_of(rows: Any, with_bounds: bool) -> str:
    """Return JSON for the commit of a file with these rows, a pyarrow Table."""
    found: dict[str, Any] = {"numRecords": rows.num_rows}
    if with_bounds:
        lowest: dict[str, Any] = {}
        highest: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        try:
            for name, column in zip(rows.column_names, rows.columns, strict=True):
                bounds = _bounds_of(column.type)
                if bounds is not None:
                    nulls[name] = column.null_count
                    if column.null_count < len(column):
                        lowest[name], highest[name] = bounds(column)
        except (_Unbounded, OverflowError, ValueError):  # years that Python does not have
            pass
        else:
            found.update(minValues=lowest, maxValues=highest, nullCount=nulls)
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


# --- bounds by type ---------------------------------------------------------------------------------------------------

_Bounds = Callable[[Any], tuple[Any, Any]]
"""Returns the lowest and highest value of a column that has one, as JSON has them."""


def _bounds_of(kind: Any) -> _Bounds | None:
    """Return the function for the bounds of a type; None if its columns have no bounds."""
    from pyarrow import types

    chosen: Sequence[tuple[Callable[[Any], bool], _Bounds]] = (
        (types.is_integer, _plain),
        (types.is_boolean, _plain),
        (types.is_floating, _floating),
        (lambda each: types.is_decimal(each) and each.precision <= _EXACT_DIGITS, _decimal),
        (lambda each: types.is_string(each) or types.is_large_string(each), _text),
        (types.is_date, _date),
        (types.is_timestamp, _time),
    )
    return next((bounds for is_one, bounds in chosen if is_one(kind)), None)


def _is_never_bounded(kind: Any) -> bool:
    """Whether no writer has bounds for the type. A struct would have those of its fields."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_list(kind) or types.is_map(kind))


def _plain(column: Any) -> tuple[Any, Any]:
    import pyarrow.compute as pc

    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _floating(column: Any) -> tuple[float, float]:
    import pyarrow.compute as pc

    low, high = _plain(column)
    if pc.any(pc.is_nan(column)).as_py() or math.isinf(low) or math.isinf(high):
        raise _Unbounded  # JSON has neither, and NaN is above every number
    return low or -0.0, high or 0.0  # of the two zeros the lower and the higher


def _decimal(column: Any) -> tuple[float, float]:
    low, high = _plain(column)
    return float(low), float(high)


def _text(column: Any) -> tuple[str, str]:
    low, high = _plain(column)
    if len(high) > _TEXT_LENGTH:
        if high[_TEXT_LENGTH] == _HIGHEST:
            raise _Unbounded
        high = high[:_TEXT_LENGTH] + _HIGHEST
    return low[:_TEXT_LENGTH], high


def _date(column: Any) -> tuple[str, str]:
    low, high = _plain(column)
    return low.isoformat(), high.isoformat()


def _time(column: Any) -> tuple[str, str]:
    import pyarrow as pa

    zone = column.type.tz
    low, high = _plain(column.cast(pa.timestamp("us", zone)).cast(pa.int64()))
    suffix = "" if zone is None else "Z"
    return _milliseconds(low // 1_000) + suffix, _milliseconds(-(-high // 1_000)) + suffix


def _milliseconds(value_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=value_ms)).replace(tzinfo=None).isoformat(timespec="milliseconds")
