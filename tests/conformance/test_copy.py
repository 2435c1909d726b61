"""`oncelog copy` from Apache Kafka to our broker and back: the same records, exact offsets of groups, one Kafka."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from oncelog import sync
from oncelog.client import Admin, Producer, TopicPartition
from oncelog.testing import Broker
from oncelog.tools.copy import life
from tests.support.kafka.server import Kafka, java_with_kafka
from tests.support.logs.copies import Recorder, contents, copy, expected_offset, fill, placed
from tests.support.patience import run

pytestmark = pytest.mark.kafka
TOPICS = ("mixed", "stamped", "empty", "cut")
OFFSETS = range(0, 200, 7)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    java_with_kafka()
    kafka = Kafka(tmp_path_factory.mktemp("kafka"))
    yield kafka
    kafka.stop()


async def commit_everywhere(bootstrap: str) -> dict[TopicPartition, int]:
    """Offsets of many groups, all over the topics; returns the ends."""
    places = [TopicPartition("mixed", number) for number in range(3)] + [TopicPartition("cut", 0)]
    async with Admin(bootstrap) as admin:
        ends = {place: each.offset for place, each in (await admin.list_offsets(places)).items()}
        for offset in OFFSETS:
            await admin.alter_group_offsets(f"group-{offset}", {p: min(offset, end) for p, end in ends.items()})
    return ends


async def until_complete(kafka: str) -> None:
    """Kafka responds to a commit before its markers are written, and until then readers see less."""
    async with Admin(kafka) as admin:
        while not all(each.state.startswith("Complete") for each in await admin.find_transactions()):
            pass  # ask again


async def round_trip(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_ROUND_BYTES", 1)
    monkeypatch.setattr("oncelog.tools.copy.copying._FETCH_BYTES", 4_000)
    await fill(kafka, Random(21), transaction_count=6)
    ends = await commit_everywhere(kafka)
    with Broker() as ours, Broker() as third:
        await copy(kafka, ours.bootstrap_servers)
        source, target = await placed(kafka, *TOPICS), await placed(ours.bootstrap_servers)
        assert await contents(ours.bootstrap_servers) == await contents(kafka, *TOPICS)
        for offset in OFFSETS:
            expected = {p: expected_offset(source[p], target[p], min(offset, end)) for p, end in ends.items()}
            assert ours.committed(f"group-{offset}") == expected
        async with Admin(kafka) as there, Admin(ours.bootstrap_servers) as here:
            theirs = await there.describe_configs(topic="mixed")
            assert {**theirs, **await here.describe_configs(topic="mixed")} == theirs
        # What came to Kafka by a copy is Kafka's like everything else.
        await fill(third.bootstrap_servers, Random(22), transaction_count=6)
        async with Admin(kafka) as admin:
            await admin.delete_topics(*TOPICS)
        await copy(third.bootstrap_servers, kafka)
        await until_complete(kafka)
        assert await contents(kafka, *TOPICS) == await contents(third.bootstrap_servers)


def test_records_groups_and_settings_go_from_kafka_to_ours_and_from_ours_to_kafka(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(round_trip(kafka.bootstrap, monkeypatch))


async def while_killed(kafka: Kafka) -> None:
    with Broker() as source:
        async with Producer(source.bootstrap_servers) as producer:
            for number in range(2_000):
                await producer.send_soon("live", b"%d" % number)

        def at_round(number: int) -> None:
            if number == 1:
                # Killed between the response to a commit and its markers, Kafka 4.3.0 sometimes forgets the
                # transaction; the copy then says that one hangs.
                with sync.Admin(kafka.bootstrap) as admin:
                    while not all(each.state.startswith("Complete") for each in admin.find_transactions()):
                        pass  # ask again
                kafka.stop()
                kafka.start()

        source.produce("live", b"last")
        watcher = Recorder(at_round)
        copying = asyncio.ensure_future(copy(source.bootstrap_servers, kafka.bootstrap, once=False, watcher=watcher))
        while watcher.record_count < 2_001:
            await asyncio.wait((copying,), timeout=0.05)
            assert not copying.done(), copying.result()
        source.produce("live", b"after the kill")
        while watcher.record_count < 2_002:
            await asyncio.wait((copying,), timeout=0.05)
            assert not copying.done(), copying.result()
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
        await until_complete(kafka.bootstrap)
        assert await contents(kafka.bootstrap, "live") == await contents(source.bootstrap_servers, "live")


def test_a_copy_to_a_kafka_that_is_killed_continues_later(kafka: Kafka) -> None:
    run(while_killed(kafka))
