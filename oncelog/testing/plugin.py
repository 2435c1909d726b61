"""pytest fixtures with a real broker; registered by installing oncelog. Nothing is imported before a test asks for one.

    def test_orders_are_invoiced(oncelog_broker):
        run_my_service(oncelog_broker.bootstrap_servers)

    @pytest.mark.oncelog(partitions=3, config={"message.max.bytes": 2_000_000})
    def test_with_settings(oncelog_broker): ...

Owns: the fixtures and the marker, whose arguments are those of `oncelog.testing.Broker`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker

_MARKER = "oncelog"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "oncelog(partitions=1, config={}, storage='memory', process=False, port=0, seed=0): how the broker of the "
        "fixture oncelog_broker is started; on a module (pytestmark) also that of oncelog_module_broker",
    )


@pytest.fixture
def oncelog_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A broker for this test alone."""
    yield from _broker(request)


@pytest.fixture(scope="module")
def oncelog_module_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A broker for all tests of this module."""
    yield from _broker(request)


@pytest.fixture(scope="session")
def oncelog_session_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A broker for all tests of this run, or of this worker of pytest-xdist."""
    yield from _broker(request)


def _broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    from oncelog.testing.broker import Broker

    marker = request.node.get_closest_marker(_MARKER)
    arguments: dict[str, Any] = marker.kwargs if marker is not None else {}
    if marker is not None and marker.args:
        raise pytest.UsageError(f"the marker {_MARKER} takes names: @pytest.mark.{_MARKER}(partitions=3)")
    with Broker(**arguments) as broker:
        yield broker
