"""The compiled wheel, by `make test-compiled`: what the list names is compiled and nothing else, under one name."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import oncelog
from oncelog.broker.log import partition_log
from oncelog.broker.storage.memory.memory_log import first_as_late
from oncelog.protocol import is_compiled
from oncelog.protocol.records.batch import HEADER_SIZE
from tests.fakes.logs import batch

ROOT = Path(__file__).parent.parent
SITE = Path(oncelog.__file__).parent.parent
in_the_wheel = pytest.mark.skipif(not is_compiled(partition_log), reason="this is not the compiled wheel")


def test_the_version_says_which_it_is() -> None:
    command = [sys.executable, "-P", "-m", "oncelog", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith(", compiled" if is_compiled(partition_log) else ", pure Python")


@in_the_wheel
def test_the_listed_modules_are_compiled_and_no_others() -> None:
    paths = [path for path in (SITE / "oncelog").rglob("*.py") if path.name != "__init__.py"]
    modules = {".".join(path.relative_to(SITE).with_suffix("").parts) for path in paths}
    assert {name for name in modules if (find_spec(name).origin or "").endswith(".so")} == listed_modules()


@in_the_wheel
def test_site_packages_has_one_package_and_the_wheel_a_platform() -> None:
    installed = distribution("oncelog")
    names = {file.parts[0] for file in installed.files or () if file.parts[0] != ".."}
    # By the modules Spark finds its format and pytest the fixtures; installed, they may have been compiled to bytecode.
    assert {name for name in names if not name.endswith(".dist-info")} - {"__pycache__"} == {
        "oncelog",
        "pyspark_oncelog.py",
        "pytest_oncelog.py",
    }
    wheel = installed.read_text("WHEEL") or ""
    assert "Root-Is-Purelib: false" in wheel and "-none-any" not in wheel


def test_no_compiled_generator_is_left_while_it_handles_an_exception() -> None:
    """Compiled, it leaves the exception to its caller, for ever if it is not continued: each later exception then keeps
    it, and all that its frames hold."""
    found = []
    for name in listed_modules():
        path = (SITE / name.replace(".", "/")).with_suffix(".py")
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(handler, ast.ExceptHandler):
                found += [f"{path}:{each.lineno}" for each in _within(handler) if isinstance(each, _LEAVES)]
    assert not found


def test_a_search_in_a_batch_that_cannot_be_decoded_leaves_no_exception() -> None:
    damaged = bytes(batch(3)[:HEADER_SIZE]) + b"\xff" * 40
    assert first_as_late(damaged, 0, 0) is not None
    assert sys.exc_info() == (None, None, None)


_LEAVES = (ast.Yield, ast.YieldFrom, ast.Await)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """All that stands in a node, but not in functions that are defined in it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield each
            yield from _within(each)


def listed_modules() -> set[str]:
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    listed = settings["hooks"]["custom"]
    return set(hook.chosen_modules(SITE, listed["compiled"], listed["interpreted"]))
