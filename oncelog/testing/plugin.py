"""pytest fixtures with a real broker; registered by installing oncelog. Nothing is imported before a test asks for one.

    def test_orders_are_invoiced(oncelog_broker):
        run_my_service(oncelog_broker.bootstrap_servers)

    @pytest.mark.oncelog(partitions=3, config={"message.max.bytes": 2_000_000})
    def test_with_settings(oncelog_broker): ...

Owns: the fixtures and the marker, whose arguments are those of `oncelog.testing.Broker`. Markers of a method, its class
and its module count together: for each argument, and for each key of `config`, the nearest.
"""

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker

__tracebackhide__ = True  # of a wrong marker the test matters
_MARKER = "oncelog"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "oncelog(partitions=1, config={}, storage='memory', process=False, port=0, seed=0, security=None): how the "
        "broker of the fixture oncelog_broker is started; on a module (pytestmark) also that of oncelog_module_broker",
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
    with Broker(**{**arguments, "config": config}) as broker:
        yield broker


def _check(marker: pytest.Mark, known: list[str]) -> None:
    """Raise UsageError for what is no argument of a broker."""
    if marker.args:
        raise pytest.UsageError(f"the marker {_MARKER} takes names: @pytest.mark.{_MARKER}(partitions=3)")
    for name in marker.kwargs:
        if name not in known:
            from oncelog.protocol.names import nearest

            close = nearest(name, known)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            text = f"the marker {_MARKER} has no argument {name!r}{meant}: it takes {', '.join(known)}"
            raise pytest.UsageError(text)
    if not isinstance(marker.kwargs.get("config"), Mapping | None):
        raise pytest.UsageError(f"config of the marker {_MARKER} is a dict: config={{'message.max.bytes': 2_000_000}}")
