"""pytest fixtures with a real broker; registered by installing oncelog. Nothing of oncelog is imported before a test
asks for one.

    def test_orders_are_invoiced(oncelog_broker):
        run_my_service(oncelog_broker.bootstrap_servers)

    @pytest.mark.oncelog(partitions=3, config={"message.max.bytes": 2_000_000})
    def test_with_settings(oncelog_broker): ...

Owns: the fixtures and the marker, whose arguments are those of `oncelog.testing.Broker`. Markers of a method, its class
and its module count together: for each argument, and for each key of `config`, the nearest.

A module beside the package, so that pytest loads it without `oncelog/__init__.py`. PYTEST_DONT_REWRITE: it asserts
nothing.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.machinery import ModuleSpec, PathFinder
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker

__tracebackhide__ = True  # of a wrong marker the test matters
_MARKER = "oncelog"


class _AsCompiled:
    """Finds oncelog's modules before pytest does. pytest rewrites the assertions of every module of a distribution that
    has a plugin, which costs a second of CPU time wherever bytecode is not kept, and makes no failed test clearer."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.partition(".")[0] == "oncelog" else None


sys.meta_path.insert(0, _AsCompiled)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "oncelog(partitions=1, config={}, storage='memory', process=False, port=0, seed=0, security=None, "
        "schema_registry=False): how the broker of the fixture oncelog_broker is started; on a module (pytestmark) "
        "also that of oncelog_module_broker",
    )


@pytest.fixture
def oncelog_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Yield a broker for this test alone."""
    yield from _broker(request)


@pytest.fixture(scope="module")
def oncelog_module_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Yield a broker for all tests of this module."""
    yield from _broker(request)


@pytest.fixture(scope="session")
def oncelog_session_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Yield a broker for all tests of this run, or of this worker of pytest-xdist."""
    yield from _broker(request)


def _broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    from oncelog.testing.broker import Broker

    arguments: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for marker in reversed([*request.node.iter_markers(_MARKER)]):  # the nearest is the last, and wins
        _check(marker, [*signature(Broker).parameters])
        arguments |= marker.kwargs
        config |= marker.kwargs.get("config") or {}
    started = _started({**arguments, "config": config})
    if not isinstance(started, Broker):
        pytest.fail(f"{request.fixturename}: {started}", pytrace=False)
    with closing(started):
        yield started


def _started(arguments: dict[str, Any]) -> "Broker | str":
    """Return a broker that runs, or why there is none in one line: what is wrong is the marker, and a way through
    the code, and that of other plugins, would hide it."""
    from oncelog.broker.config.settings import ConfigError, StartError
    from oncelog.testing.broker import Broker

    try:
        broker = Broker(**arguments)
    except (ValueError, RuntimeError) as error:
        return str(error)
    try:
        return broker.start()
    except (ConfigError, StartError) as error:
        return str(error)


def _check(marker: pytest.Mark, known: list[str]) -> None:
    """Fail the test for what is no argument of a broker."""
    if marker.args:
        pytest.fail(f"the marker {_MARKER} takes names: @pytest.mark.{_MARKER}(partitions=3)", pytrace=False)
    for name in marker.kwargs:
        if name not in known:
            from oncelog.protocol.names import nearest

            close = nearest(name, known)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            text = f"the marker {_MARKER} has no argument {name!r}{meant}: it takes {', '.join(known)}"
            pytest.fail(text, pytrace=False)
    if not isinstance(marker.kwargs.get("config"), Mapping | None):
        text = f"config of the marker {_MARKER} is a dict: config={{'message.max.bytes': 2_000_000}}"
        pytest.fail(text, pytrace=False)
