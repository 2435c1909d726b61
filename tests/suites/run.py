"""Runs the tests of a suite, and continues behind a test that ends or hangs its process."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.proofs.runner import say
from tests.suites.brokers import broker_for
from tests.suites.outputs import FAILED, LATE
from tests.suites.results import Result
from tests.suites.suite import Broker, Outcome, Suite, Where
from tests.support.patience import until

_SAY_EVERY_S = 10

_Found = tuple[Mapping[str, Outcome], Mapping[str, int]]
"""Outcomes and notes of one process."""


def result_of(suite: Suite, where: Where, wanted: Sequence[str] = (), logs: Path | None = None) -> Result:
    """Returns the outcomes of its tests, or of the `wanted` of them."""
    began_s = time.monotonic()
    tests = [*(wanted or suite.tests())]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-suites-")))
        broker = stack.enter_context(broker_for(suite, where, directory))
        if suite.beside is not None:
            command, ready_at = suite.beside()
            beside = subprocess.Popen([*command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(beside.wait)
            stack.callback(beside.terminate)
            until(lambda: _listens(ready_at))
        outcomes: dict[str, Outcome] = {}
        notes: Counter[str] = Counter()
        for some, given in _RUNS[suite.processes](suite, tests, broker, logs or directory):
            outcomes |= some
            notes.update(given)
            failed = [f"\n    {test}: {each.why}" for test, each in some.items() if each.status == "failed"]
            say(suite.name, f"{len(outcomes)} ended" + (f", failed:{''.join(failed)}" if failed else ""))
    return Result(suite.name, suite.version(), where, outcomes, round(time.monotonic() - began_s, 1), notes=dict(notes))


def _together(suite: Suite, tests: Sequence[str], broker: Broker, logs: Path) -> Iterator[_Found]:
    left = [*tests]
    while left:
        output, _ = _process(suite, left, broker, logs)
        some = suite.read(output)
        done = {test: some[test] for test in left if test in some} or {left[0]: FAILED}
        yield done, suite.notes(output)
        left = [test for test in left if test not in done]


def _one_by_one(suite: Suite, tests: Sequence[str], broker: Broker, logs: Path) -> Iterator[_Found]:
    """A test of an administrator changes the broker under those beside it."""
    for test in tests:
        yield from _at_once(suite, [test], broker, logs)


def _at_once(suite: Suite, tests: Sequence[str], broker: Broker, logs: Path) -> Iterator[_Found]:
    output, code = _process(suite, tests, broker, logs)
    yield suite.read(output) or _in_place_of(tests[0], code), suite.notes(output)


def _in_place_of(test: str, code: int | None) -> Mapping[str, Outcome]:
    """What ends well and has run nothing has no tests."""
    return {test: LATE if code is None else FAILED} if code != 0 else {}


_RUNS = {"continued": _together, "each test": _one_by_one, "all tests": _at_once}


def _process(suite: Suite, tests: Sequence[str], broker: Broker, logs: Path) -> tuple[str, int | None]:
    """Returns what it has printed, and the exit code: None if it was ended because its time was over."""
    log = logs / f"{suite.name.partition(' ')[0]}-{tests[0].replace('/', '_')[-60:]}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*suite.command(tests, broker)],
            cwd=suite.directory() if suite.directory else broker.directory,
            env={**os.environ, **suite.environment(broker)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = None
        try:
            for _ in range(0, suite.timeout_s, _SAY_EVERY_S):
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(_SAY_EVERY_S)
                    break
                if suite.processes == "continued":
                    say(suite.name, f"{len(suite.read(log.read_text(errors='replace')))} of {len(tests)} begun")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a test has left running, too
            process.wait()
    return log.read_text(errors="replace"), code


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
