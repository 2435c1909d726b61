"""Stops the PostgreSQL that the stores have started."""

from collections.abc import Iterator

import pytest

from tests.unit.storage.stores import SERVERS


@pytest.fixture(scope="session", autouse=True)
def stopped_servers() -> Iterator[None]:
    yield
    for _, running in SERVERS:
        running.close()
