"""Interpreters that have another oncelog installed, and modules of the benchmark that run under them.

Owns: the compiled oncelog, of `make wheel` in the environment of `make test-compiled`; folders without oncelog's
sources, so that the installed one is found.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.harness.command import must_succeed
from bench.page import ROOT
from tools import interop

COMPILED_PYTHON = str(ROOT / ".compiled" / "venv" / "bin" / "python")
_NEEDED = ("bench", "tests", "tools")


def prepare_compiled() -> str:
    """Returns what it says of its version. Raises interop.Unavailable."""
    interop.need("make", "gcc")
    must_succeed(lambda: interop.call("make", "--no-print-directory", ".compiled/.test"))
    said = interop.answer(COMPILED_PYTHON, "-P", "-m", "oncelog", "--version")
    if "compiled" not in said:
        raise interop.Unavailable(f"it is not compiled: {said}")
    return said


def make_place(directory: Path) -> Path:
    """A folder with the sources of the benchmark, and not those of oncelog."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in _NEEDED:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(ROOT / name)
    return directory


def printed(python: str, module: str, place: Path) -> Any:
    """The JSON that the module of the benchmark prints under this interpreter."""
    command = [python, "-m", module]
    return json.loads(subprocess.run(command, cwd=place, stdout=subprocess.PIPE, text=True, check=True).stdout)
