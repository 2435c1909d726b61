"""Clients, unmodified, through ten take-overs between two nodes over one PostgreSQL: they see waits alone.

Their programs are those of `make proof WHAT=postgres` and others that print the same lines (tests/proofs/postgres):
writers in transactions, a copier in a group that commits its offsets with them, and a follower. The leader is killed
five times, and stopped or asked to step down in between. Kafka Streams has a program of its own.

franz-go 1.22 reports an ErrDataLoss that is none: it moves its position past a marker, but keeps the leader epoch of
the last record that it has returned (source.go, `processRespPartition`). Where the marker was written in a later epoch,
the end of the earlier one is below that position. It reads the marker again, and no record: that is what is looked at.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.test_kafka_streams import WordCount, both_protocols
from tests.proofs.clients.client import (
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
from tests.proofs.postgres import takeovers
from tests.proofs.postgres.world import World
from tests.support.foreign.interop import QUICK_GROUPS
from tests.support.patience import SLOW_TIMEOUT_S, until
from tests.support.postgres.server import Postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="the tables are asked with psycopg: pip install 'oncelog[postgres]'")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S), pytest.mark.xdist_group("postgres")]

CLIENTS = (OWN, LIBRDKAFKA, JAVA, JAVA_3, AIOKAFKA)
BEGINNING_AGAIN = (FRANZ_GO, KAFKA_PYTHON, KAFKAJS)
"""Their producers do not survive the loss of a connection at each moment, whatever the broker is (the notes on clients
say why): their applications have to."""

JAVAS_OWN = "IllegalStateException: Cannot set a new position without a valid current position"
"""An error that Java's consumer of KIP-848 and KIP-1071 may raise where a partition gets another leader: two of its
threads change a position, whatever the broker is (docs/clients/client-notes.md).
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", CLIENTS, ids=Client.topic_of)
def test_ten_take_overs_are_waits(
    kind: str, postgres: Postgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """No producer is replaced, each outcome is known, and what was committed is there once, whole and in order."""
    ledger = through_take_overs(kind, postgres, tmp_path)
    record_property("longest_ms", ledger.longest_ms)
    assert [name for name in ledger.outcomes if name.split(".")[1] != "1"] == [], "a producer gave up"
    assert [name for name in ledger.errors if "fence" in name.lower() or "epoch" in name.lower()] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", BEGINNING_AGAIN, ids=Client.topic_of)
def test_ten_take_overs_lose_and_double_nothing_where_an_application_begins_again(
    kind: str, postgres: Postgres, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A new producer with the same transactional.id ends what the last one left open, and each outcome is found out."""
    ledger = through_take_overs(kind, postgres, tmp_path)
    record_property("longest_ms", ledger.longest_ms)


@pytest.mark.sampled(2)
@both_protocols
def test_kafka_streams_counts_exactly_through_ten_take_overs(
    postgres: Postgres, tmp_path: Path, protocol: str, record_property: Callable[[str, object], None]
) -> None:
    """No stream thread is replaced for another reason than Java's own, and no word is left out or counted twice
    (exactly_once_v2).
    """
    name = f"takeovers_streams_{protocol}"
    with World([postgres], tmp_path, 1, name, (), count=2, settings=QUICK_GROUPS).open() as world:
        application = WordCount(world.bootstrap, tmp_path, protocol)

        def goes_on() -> None:
            before = world.committed(f"{application.name}-counts")
            until(lambda: world.committed(f"{application.name}-counts") > before)

        with application.fed(), application.running():
            waits = takeovers.in_turn(world, goes_on)
        with application.running():
            application.assert_exact()
    record_property("longest_ms", round(max(waits) * 1000))
    print(f"Kafka Streams, {protocol}: at the longest {max(waits) * 1000:.0f} ms")
    replaced = [line for line in application.said().splitlines() if "replaced a thread" in line]
    assert [line for line in replaced if protocol == "classic" or JAVAS_OWN not in line] == []


def through_take_overs(kind: str, postgres: Postgres, directory: Path) -> Ledger:
    """Run a client through take-overs; return the ledger of its operations and outcomes."""
    name = f"takeovers_{Client.topic_of(kind)}"
    with World([postgres], directory, 1, name, (kind,), count=2).open() as world:

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
