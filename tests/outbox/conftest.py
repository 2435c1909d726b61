"""A PostgreSQL and a broker for the tests of the outbox."""

from collections.abc import AsyncIterator, Iterator

import pytest

from oncelog.testing import Broker
from tests.outbox.postgres_world import CARRIERS, Shop, made
from tests.support.postgres.server import Postgres, shared


@pytest.fixture(scope="session")
def server() -> Postgres:
    return shared(is_durable=False)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker with the topic `events`; a relay makes no pause between its lives."""
    monkeypatch.setattr("oncelog.tools.outbox.relaying._PAUSE_S", 0.01)
    with Broker() as found:
        found.create_topic("events")
        yield found


@pytest.fixture(params=CARRIERS)
async def shop(server: Postgres, broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """A database with an outbox of each carrier."""
    found = await made(server, broker, request.param)
    yield found
    await found.drop()
