"""What a checkpoint's file of a planned batch says: when it was planned, and where it ends in each source."""

import json
from typing import Any

from oncelog.pipeline.source.offsets import ForeignOffset, StreamOffset, from_json


def planned(content: bytes) -> tuple[int | None, list[StreamOffset | None]]:
    """Return when a batch was planned, and its end in each source; None for one of another format."""
    values: list[Any] = []
    for line in content.decode(errors="replace").splitlines()[1:]:
        try:
            values.append(json.loads(line))
        except ValueError:
            values.append(None)
    planned_ms = values[0].get("batchTimestampMs") if values and isinstance(values[0], dict) else None
    return planned_ms, [_offset(value) for value in values[1:]]


def _offset(value: Any) -> StreamOffset | None:
    try:
        return from_json(value) if isinstance(value, dict) and value else None
    except ForeignOffset:
        return None
