"""Clients, unmodified, through ten take-overs between two nodes over one PostgreSQL: they see waits alone.

Their programs are those of `make postgres-proof` and others that print the same lines (tests/postgres/proof): writers
in transactions, a copier in a group that commits its offsets with them, and a follower. The leader is killed, stopped
and asked to step down in turn. Kafka Streams has a program of its own.

franz-go 1.22 reports an ErrDataLoss that is none: it moves its position past a marker, but keeps the leader epoch of
the last record that it has returned (source.go, `processRespPartition`). Where the marker was written in a later epoch,
the end of the earlier one is below that position. It reads the marker again, and no record: that is what is looked at.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.test_kafka_streams import WordCount
from tests.postgres.proof import takeovers
from tests.postgres.proof.clients import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    JAVA_3,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    OWN,
    Client,
    Ledger,
)
from tests.postgres.proof.world import World
from tests.support.interop import QUICK_GROUPS
from tests.support.patience import SLOW_TIMEOUT_S
from tests.support.postgres import Postgres, started

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="the tables are asked with psycopg: pip install 'oncelog[postgres]'")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S), pytest.mark.xdist_group("postgres")]

CLIENTS = (OWN, LIBRDKAFKA, JAVA, JAVA_3, AIOKAFKA)
BEGINNING_AGAIN = (FRANZ_GO, KAFKA_PYTHON, KAFKAJS)
"""Their producers do not survive the loss of a connection at each moment, whatever the broker is (the notes on clients
say why): their applications have to."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from started()


@pytest.mark.parametrize("kind", CLIENTS, ids=Client.topic_of)
def test_ten_take_overs_are_waits(
    kind: str, postgres: Postgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """No producer is replaced, each outcome is known, and what was committed is there once, whole and in order."""
    ledger = through_take_overs(kind, postgres, tmp_path)
    record_property("longest_ms", ledger.longest_ms)
    assert [name for name in ledger.outcomes if name.split(".")[1] != "1"] == [], "a producer gave up"
    assert [name for name in ledger.errors if "fence" in name.lower() or "epoch" in name.lower()] == []


@pytest.mark.parametrize("kind", BEGINNING_AGAIN, ids=Client.topic_of)
def test_ten_take_overs_lose_and_double_nothing_where_an_application_begins_again(
    kind: str, postgres: Postgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A new producer with the same transactional.id ends what the last one left open, and each outcome is found out."""
    ledger = through_take_overs(kind, postgres, tmp_path)
    record_property("longest_ms", ledger.longest_ms)


def test_kafka_streams_counts_exactly_through_ten_take_overs(postgres: Postgres, tmp_path: Path) -> None:
    """With exactly_once_v2: no stream thread is replaced, and no word is left out or counted twice."""
    with World([postgres], tmp_path, 1, "takeovers_streams", (), nodes=2, settings=QUICK_GROUPS).open() as world:
        application = WordCount(world.bootstrap, tmp_path, "classic")
        waits: list[float] = []

        def goes_on() -> None:
            begun_s, before = time.monotonic(), world.committed(f"{application.name}-counts")
            takeovers.await_that(lambda: world.committed(f"{application.name}-counts") > before)
            waits.append(time.monotonic() - begun_s)

        with application.fed(), application.running():
            takeovers.in_turn(world, goes_on)
        with application.running():
            application.assert_exact()
    print(f"Kafka Streams: at the longest {max(waits) * 1000:.0f} ms")
    assert "replaced a thread" not in application.said()


def through_take_overs(kind: str, postgres: Postgres, directory: Path) -> Ledger:
    """What a client did and was told meanwhile."""
    name = f"takeovers_{Client.topic_of(kind)}"
    with World([postgres], directory, 1, name, (kind,), nodes=2).open() as world:

        def goes_on() -> None:
            world.await_progress(0)  # what was printed until now was before
            world.await_progress()

        takeovers.in_turn(world, goes_on)
        ((ledger, verdict),) = world.finish().values()
    print(f"{kind}: at the longest {ledger.longest_ms} ms; {verdict.counted}; {dict(ledger.errors)}")
    assert verdict.strange == []
    assert verdict.counted.unknown == 0
    assert verdict.counted.copied >= takeovers.IN_TURN
    return ledger
