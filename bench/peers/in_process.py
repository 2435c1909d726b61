"""Processor time of one operation without sockets and disk: what compiling changes, and only that.

Owns: running `bench.hot_paths` with another interpreter, in a folder without this one's sources, so that the installed
broker is found.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.peers.contestants import COMPILED_PYTHON, ROOT

COLUMNS = {"oncelog-fsync": "interpreted", "compiled-fsync": "compiled"}
"""Of the table, by the contestant without which it is missing."""
_PYTHONS = {"interpreted": sys.executable, "compiled": COMPILED_PYTHON}
_NEEDED = ("bench", "tests")


def measured(versions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Microseconds by column, then by operation, for those contestants that could be prepared."""
    return {column: _measure(_PYTHONS[column]) for key, column in COLUMNS.items() if key in versions}


def _measure(python: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        for name in _NEEDED:
            (Path(folder) / name).symlink_to(ROOT / name)
        ended = subprocess.run(
            [python, "-m", "bench.hot_paths"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, float] = json.loads(ended.stdout)
    return found
