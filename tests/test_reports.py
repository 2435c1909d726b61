"""A run of the tests ends with the names of what failed, whatever becomes of its workers (tests/support/reports.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
GOOD = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_good(number):
    pass

def test_wrong():
    assert 1 == 2
"""
# Parsed at import with room, and without any when pytest looks for the line that raised.
DEEP = f"""
import sys
from types import ModuleType

SOURCE = "def fail():\\n    raise ValueError('said inside', {"+".join(["1"] * 3_500)})\\n"

def test_deep(tmp_path):
    path = tmp_path / "deep.py"
    path.write_text(SOURCE)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    code = compile(SOURCE, str(path), "exec")
    sys.setrecursionlimit(limit)
    names = {{}}
    exec(code, names)
    names["fail"]()
"""
CRASH = """
import os

def test_crash():
    os.kill(os.getpid(), 9)
"""
# The exception of a timeout is swallowed wherever a callback of a loop is running.
STAY = """
import threading

import pytest

@pytest.mark.timeout(3)
def test_stay():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass
"""
# An error of pytest's own, once something has failed.
BROKEN = """
def pytest_runtest_logreport(report):
    if report.failed:
        raise RuntimeError("a plugin broke")
"""
# The whole run is asked to end while another test is running.
TERMINATED = """
import os
import signal

def pytest_runtest_logreport(report):
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)
"""
ENDLESS = """
import threading

def test_endless():
    threading.Event().wait()
"""


def ended(folder: Path, workers: int = 2, **modules: str) -> str:
    """Run these modules with this project's settings and so many workers; return what the run prints."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += [f"-n{workers}", "--dist", "worksteal", "-p", "no:cacheprovider", str(folder)]
    for plugin in (
        "xdist.plugin",
        "pytest_asyncio.plugin",
        "pytest_timeout",
    ):  # what the settings ask for: each worker imports it
        command += ["-p", plugin]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode not in (0, 5), done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        (DEEP, "test_deep", "said inside"),
        (CRASH, "test_crash", "crashed while running"),
        (STAY, "test_stay", "crashed while running"),
    ],
    ids=["deep", "crash", "stay"],
)
def test_all_others_run_and_each_failure_has_its_name(tmp_path: Path, module: str, name: str, said: str) -> None:
    out = ended(tmp_path, test_good=GOOD, test_bad=module)
    names = [line.split(" - ")[0] for line in out.splitlines() if line.startswith("FAILED")]
    assert sorted(names) == [f"FAILED test_bad.py::{name}", "FAILED test_good.py::test_wrong"], out
    assert said in out
    assert "2 failed, 20 passed" in out


def test_an_error_of_pytests_own_prints_the_names_too(tmp_path: Path) -> None:
    out = ended(tmp_path, test_good=GOOD, conftest=BROKEN)
    assert "a plugin broke" in out
    assert "FAILED test_good.py::test_wrong" in out, out


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_is_terminated_prints_the_names_too(tmp_path: Path, workers: int) -> None:
    out = ended(tmp_path, workers, test_good=GOOD, test_later=ENDLESS, conftest=TERMINATED)
    assert "FAILED test_good.py::test_wrong" in out, out
    assert "KeyboardInterrupt" in out
