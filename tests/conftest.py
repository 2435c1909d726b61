"""For all tests: a daemon of its own process, one for a whole module or a fresh one; and how hypothesis searches.

By default a property meets the same examples in each run, so a failure is always the last change's; `make test-all` has
more of them (`thorough`). To search on: `make test ARGS='--hypothesis-profile=search -k …'`.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from oncelog.broker.log import partition_log
from oncelog.protocol import is_compiled
from tests.support.compiled import NOT_COMPILED, meets_compiled_code
from tests.support.cores import core_count
from tests.support.order import waiting_first
from tests.support.patience import SLOW_TIMEOUT_S
from tests.support.processes.daemon import Daemon
from tests.support.processes.shared_notes import notes_below
from tests.support.samples import sample

if TYPE_CHECKING:
    from tests.support.postgres.server import Postgres

Start = Callable[..., Daemon]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="fail unless it is the compiled broker that is tested")
    parser.addoption("--not-compiled", action="store_true", help="only tests that --compiled leaves out")


def pytest_configure(config: pytest.Config) -> None:
    _let_children_take_signals()
    gc.disable()  # until all is collected: a third of what that costs was walks over the tests already there
    if config.getoption("--compiled") and not is_compiled(partition_log):
        raise pytest.UsageError(f"--compiled, but {partition_log.__file__} is interpreted")


def _let_children_take_signals() -> None:
    """Let the programs that tests start take Ctrl-C and a hang-up, even where nohup or a shell in the background has
    made pytest ignore both: programs inherit what is ignored, but no handler."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of what reads the sources, which are not where the compiled broker is tested."""
    return True if config.getoption("--compiled") and collection_path in NOT_COMPILED else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Exhaustive tests may take minutes on a busy machine, but a test that hangs still ends."""
    if config.getoption("--not-compiled"):
        items[:] = [item for item in items if not meets_compiled_code(item)]
    skips = [pytest.mark.skip(reason="replaces or counts interpreted code")] if is_compiled(partition_log) else []
    sample(items)
    for item in items:
        if item.get_closest_marker("interpreted") is not None:
            for skip in skips:
                item.add_marker(skip)
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
    yield  # tests are selected by their marks
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = waiting_first(items, int(workers))


def pytest_xdist_auto_num_workers() -> int:
    """Three a core: most tests wait for a daemon, a client or a disk (`make test` takes a fifth longer with two)."""
    return 3 * core_count()


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: no garbage collection walks them (measured: a fifth of test_costs).

    What is new is walked less often than by default: 7 % of the time of tests in process went there."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


# A machine that is busy with other things is no reason to fail.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _PATIENT, derandomize=True, max_examples=30)
settings.register_profile("thorough", _PATIENT, derandomize=True, max_examples=100)
settings.register_profile("search", _PATIENT, derandomize=False)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def no_notes_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Brokers that a test has killed look for no note any more; pytest keeps their directories for a while."""
    yield
    for note in notes_below(tmp_path_factory.getbasetemp()):
        note.unlink(missing_ok=True)


@pytest.fixture(scope="session", autouse=True)
def runs_of_pytest_in_tests_keep_files_below(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They would delete those of earlier runs otherwise."""
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.mktemp("inner"))


@pytest.fixture(scope="session", autouse=True)
def no_server_left() -> Iterator[None]:
    yield
    from tests.support.postgres.server import stop_shared

    stop_shared()


@pytest.fixture(scope="session")
def postgres() -> "Postgres":
    """The server of this worker, for tests that neither stop it nor change its settings."""
    from tests.support.postgres.server import shared

    return shared()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for the tests of a module, with quick groups: each test takes topics and ids of its own."""
    running = Daemon(tmp_path_factory.mktemp("daemon") / "data", "group.initial.rebalance.delay.ms=0")
    yield running
    running.stop()


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[Start]:
    """Starts daemons that are this test's alone: `start_daemon("key=value", …)`; all are stopped in the end."""
    started: list[Daemon] = []

    def start(*overrides: str, name: str = "data", open_files: int | None = None) -> Daemon:
        running = Daemon(tmp_path / name, *overrides, open_files=open_files)
        started.append(running)
        return running

    yield start
    for running in started:
        running.stop()
