"""A plugin of pytest's (pyproject.toml): whatever becomes of a run, it ends with the names of what failed.

A test whose exception pytest cannot format (a deep expression in the traceback: RecursionError) fails by its name and
with a plain traceback; otherwise the error is pytest's own, which ends a worker with all the tests that it had left.
A run that is ended with SIGTERM ends as one of Ctrl-C, with its summary.
A test that stays after its timeout, since the exception of that was swallowed or no Python runs, ends its worker, which
xdist reports and replaces. An error of pytest's own prints the names of what had failed until then.
"""

import faulthandler
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest


def _plainly(error: BaseException | None) -> str:
    """Nothing is parsed and nothing is called, in which the next error could be."""
    lines = []
    traceback = getattr(error, "__traceback__", None)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        lines.append(f"{code.co_filename}:{traceback.tb_lineno}: in {code.co_name}")
        traceback = traceback.tb_next
    said = ""
    with suppress(Exception):
        said = str(error)[:4_000]
    return "\n".join([*lines[-40:], f"{type(error).__name__}: {said}"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    try:
        return (yield)  # type: ignore[return-value]
    except Exception as error:
        found = call.excinfo.value if call.excinfo is not None else None
        text = f"{_plainly(found)}\n\npytest could not format it:\n{_plainly(error)}"
        return pytest.TestReport(  # type: ignore[return-value]
            item.nodeid, item.location, {}, "failed", text, call.when, duration=call.duration, start=call.start
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """A second timeout of the same length. In a worker alone: a process by itself may have a debugger."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    marker = item.get_closest_marker("timeout")
    timeout_s = float(marker.args[0] if marker is not None and marker.args else item.config.getini("timeout") or 0)
    if timeout_s <= 0:
        return (yield)
    faulthandler.dump_traceback_later(2 * timeout_s, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Only of the process that reports, and only of its main thread, which alone may."""
    if not hasattr(session.config, "workerinput") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    """Once: a second signal ends the process, should the first be swallowed."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt("SIGTERM")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """pytest prints no summary after an error of its own."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if exitstatus != pytest.ExitCode.INTERNAL_ERROR or reporter is None or hasattr(session.config, "workerinput"):
        return
    failed = [each for kind in ("failed", "error") for each in reporter.stats.get(kind, [])]
    reporter.section(f"{len(failed)} failed before pytest did, which did not run all")
    for each in failed:
        reporter.write_line(f"FAILED {each.nodeid}")
