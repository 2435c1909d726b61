"""Reads the log of another process, while it is being written: whole lines alone.

The last line may still be on its way. A reader sees it up to where a page of the file ends, so its JSON is cut
somewhere. tests/test_tidy.py lets no test open the log of a daemon in another way.
"""

import json
import os
from pathlib import Path
from typing import Any


def whole_lines(path: Path) -> list[str]:
    """The lines that end; what stands after the last of them is still being written."""
    return _whole(path).decode(errors="replace").split("\n")[:-1]


def drop_half_a_line(path: Path) -> None:
    """Cut off the part of a line that a killed process has left, so that the next process begins a line of its own."""
    if path.exists():
        os.truncate(path, len(_whole(path)))


def _whole(path: Path) -> bytes:
    written = path.read_bytes()
    return written[: written.rfind(b"\n") + 1]


def events(path: Path, *names: str) -> list[dict[str, Any]]:
    """The events with these names, or all, of a log in JSON. A traceback, and what a library has printed, are none."""
    found = (json.loads(line) for line in whole_lines(path) if line.startswith("{"))
    return [event for event in found if not names or event["event"] in names]
