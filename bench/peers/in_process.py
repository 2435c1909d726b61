"""Processor time of one operation without sockets and disk: what compiling changes, and only that.

Owns: which interpreters run `bench.hot_paths`, in a folder without this one's sources, so that the installed broker is
found.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.harness.interpreters import COMPILED_PYTHON, make_place, printed

COLUMNS = {"oncelog-fsync": "interpreted", "compiled-fsync": "compiled"}
"""Of the table, by the contestant without which it is missing."""
_PYTHONS = {"interpreted": sys.executable, "compiled": COMPILED_PYTHON}


def measured(versions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Microseconds by column, then by operation, for those contestants that could be prepared."""
    return {column: _measure(_PYTHONS[column]) for key, column in COLUMNS.items() if key in versions}


def _measure(python: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, float] = printed(python, "bench.hot_paths", make_place(Path(folder)))
    return found
