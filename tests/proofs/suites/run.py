"""Runs the tests of a suite against one broker, and goes on behind a test that ends or hangs its process."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.proofs.runner import say
from tests.proofs.suites.broker import broker_for
from tests.proofs.suites.page import Found
from tests.proofs.suites.suite import Outcome, Suite
from tests.support.patience import until

_SAY_EVERY_S = 10


def found_by(suite: Suite, kind: str, storage: str, wanted: Sequence[str] = (), logs: Path | None = None) -> Found:
    """Returns the outcomes of its tests, or of the `wanted` of them."""
    began_s = time.monotonic()
    tests = [
        test
        for test in suite.tests()
        if (not wanted or test in wanted) and ((excuse := suite.excuse_of(test)) is None or excuse.is_run)
    ]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-suites-")))
        bootstrap = stack.enter_context(broker_for(kind, storage, directory, suite.settings, suite.port))
        if suite.beside is not None:
            command, ready_at = suite.beside()
            beside = subprocess.Popen([*command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(beside.wait)
            stack.callback(beside.terminate)
            until(lambda: _listens(ready_at))
        host, _, port = bootstrap.rpartition(":")
        values = {"bootstrap": bootstrap, "host": host, "port": port, "directory": str(directory)}
        environment = {name: value.format(**values) for name, value in suite.environment.items()}
        place = logs or directory
        outcomes: dict[str, Outcome] = {}
        for some in _ran(suite, tests, environment, place):
            outcomes |= some
            failed = [name for name, outcome in some.items() if outcome == "failed"]
            say(suite.name, f"{len(outcomes)} ended" + (f", failed: {', '.join(failed)}" if failed else ""))
    seconds = round(time.monotonic() - began_s, 1)
    return Found(suite.name, suite.version(), kind, storage, outcomes, seconds)


def _ran(
    suite: Suite, tests: Sequence[str], environment: Mapping[str, str], logs: Path
) -> Iterator[Mapping[str, Outcome]]:
    if not suite.batch:
        left = [*tests]
        while left:
            some, _ = _process(suite, left, environment, logs)
            done = {test: some[test] for test in left if test in some} or {left[0]: "failed"}
            yield done
            left = [test for test in left if test not in done]
        return
    # One after the other: a test of an administrator changes the broker under those beside it.
    for batch in (tests[first : first + suite.batch] for first in range(0, len(tests), suite.batch)):
        some, is_late = _process(suite, batch, environment, logs)
        silent = [test for test in batch if not any(name.partition("::")[0] == test for name in some)]
        yield {**some, **dict.fromkeys(silent, "late" if is_late else "failed")}


def _process(
    suite: Suite, tests: Sequence[str], environment: Mapping[str, str], logs: Path
) -> tuple[Mapping[str, Outcome], bool]:
    """Returns the outcomes, and whether it was ended because its time was over."""
    log = logs / f"{suite.name.partition(' ')[0]}-{tests[0].replace('/', '_')[-60:]}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*suite.command(tests)],
            cwd=suite.directory(),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            for _ in range(0, suite.timeout_s, _SAY_EVERY_S):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SAY_EVERY_S)
                    break
                if suite.batch != 1:
                    say(suite.name, f"{len(suite.read(log.read_text(errors='replace')))} of {len(tests)} begun")
            is_late = process.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a test has left running, too
            process.wait()
    return suite.read(log.read_text(errors="replace")), is_late


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
