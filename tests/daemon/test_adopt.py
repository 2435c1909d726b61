"""A directory of Apache Kafka 3.9, adopted: clients see in it what Kafka showed, and continue from it.

How it was recorded: tests/conformance/kafka_directory.py.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer

from oncelog.broker.storage.local.data_directory import ADOPTED
from oncelog.cli import main
from oncelog.client import Admin, Consumer, KafkaError, NewTopic, Producer
from oncelog.client import TopicPartition as Place
from tests.conformance.kafka_directory import shown
from tests.support.kafka.directories import fingerprint, recorded
from tests.support.logs.graduation import read
from tests.support.pages.walkthrough import steps_of, walk
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon


@pytest.fixture
def adopted(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The new directory, and what Kafka showed."""
    kafka, seen = recorded(tmp_path)
    result = CliRunner().invoke(main, ["adopt", str(kafka), "--out", str(tmp_path / "ours")])
    assert result.exit_code == 0, result.output
    return tmp_path / "ours", seen


@pytest.fixture
def looking(adopted: tuple[Path, dict[str, Any]]) -> Iterator[Daemon]:
    daemon = Daemon(adopted[0])
    yield daemon
    daemon.stop()


def test_without_a_word_it_shows_what_kafka_showed_writes_nothing_and_says_what_to_do_next(
    adopted: tuple[Path, dict[str, Any]],
) -> None:
    data_dir, seen = adopted
    before = fingerprint(data_dir)
    daemon = Daemon(data_dir)
    try:
        assert asyncio.run(shown(daemon.bootstrap)) == seen
    finally:
        assert daemon.stop() == 0
    assert "--writable" in daemon.log
    assert fingerprint(data_dir) == before


def test_two_read_only_brokers_share_a_directory_and_another_is_kept_out(looking: Daemon) -> None:
    second = Daemon(looking.data_dir)
    with pytest.raises(RuntimeError, match="did not start"):
        Daemon(looking.data_dir, "oncelog.read.only=false")
    assert second.stop() == 0
    assert (looking.data_dir / ADOPTED).exists()


def test_librdkafka_reads_by_assignment_and_gets_an_error_at_once_if_it_would_write_commit_or_join(
    looking: Daemon,
) -> None:
    settings = {"bootstrap.servers": looking.bootstrap, "group.id": "veterans", "enable.auto.commit": False}
    reader = ConfluentConsumer(settings | {"auto.offset.reset": "earliest"})
    place = TopicPartition("latest", 0)
    assert reader.committed([place], timeout=PATIENCE_S)[0].offset == 4
    reader.assign([TopicPartition("latest", 0, 0)])
    message = reader.poll(PATIENCE_S)
    assert message is not None and (message.error(), message.value()) == (None, b"0")
    with pytest.raises(KafkaException, match="Group authorization failed"):
        reader.commit(offsets=[TopicPartition("latest", 0, 1)], asynchronous=False)
    reader.close()
    member = ConfluentConsumer(settings)
    member.subscribe(["latest"])
    message = member.poll(PATIENCE_S)
    assert message is not None and message.error() is not None and "authorization" in message.error().str().lower()
    member.close()
    failures: list[Any] = []
    producer = ConfluentProducer({"bootstrap.servers": looking.bootstrap})
    producer.produce("orders", b"never", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [failure.name() for failure in failures] == ["TOPIC_AUTHORIZATION_FAILED"]
    transactional = ConfluentProducer({"bootstrap.servers": looking.bootstrap, "transactional.id": "payer"})
    with pytest.raises(KafkaException, match="Transactional"):
        transactional.init_transactions(PATIENCE_S)


def test_our_client_says_at_once_why_a_topic_is_not_created(looking: Daemon) -> None:
    async def create() -> None:
        async with Admin(looking.bootstrap) as admin:
            await admin.create_topics(NewTopic("new", 1, 1))

    with pytest.raises(KafkaError, match="read-only"):
        asyncio.run(create())
    assert '"api":"CREATE_TOPICS"' in looking.log.replace(" ", "")


def test_what_kafka_began_continues_here(adopted: tuple[Path, dict[str, Any]]) -> None:
    """The open transaction ends by its timeout, its id continues in the next epoch, the group from its offset. One
    start that may write is enough: the next one writes too.
    """
    data_dir, _ = adopted

    async def go_on(bootstrap: str) -> list[bytes | None]:
        async with Admin(bootstrap) as admin:
            before = await admin.describe_transaction("payer")
            while (await admin.describe_transaction("leaver")).state != "CompleteAbort":
                pass  # ask again
            async with Producer(bootstrap, transactional_id="payer") as payer, payer.transaction() as transaction:
                await transaction.send("orders", b"here", partition=0)
            after = await admin.describe_transaction("payer")
        assert (after.producer_id, after.state) == (before.producer_id, "CompleteCommit")
        assert after.producer_epoch > before.producer_epoch
        async with Producer(bootstrap) as producer:
            await producer.send("latest", b"next", key=b"k", partition=0)
        async with Consumer("latest", bootstrap_servers=bootstrap, group_id="veterans") as member:
            got: list[bytes | None] = []
            while not got:
                got = [record.value for record in await member.poll(200)]
            await member.commit_sync()
        return got

    async def again(bootstrap: str) -> list[bytes | None]:
        async with Producer(bootstrap) as producer:
            await producer.send("orders", b"again", partition=0)
        place = Place("orders", 0)
        return [value for *_, value in (await read(bootstrap, [place], "read_committed"))[place]]

    daemon = Daemon(data_dir, "oncelog.read.only=false")
    try:
        assert asyncio.run(asyncio.wait_for(go_on(daemon.bootstrap), PATIENCE_S)) == [b"next"]
    finally:
        daemon.kill()
    daemon = Daemon(data_dir)
    try:
        assert asyncio.run(again(daemon.bootstrap)) == [b"paid", b"here", b"again"]
    finally:
        daemon.stop()


@pytest.mark.slow
def test_each_command_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    kafka, _ = recorded(tmp_path)
    kafka.rename(tmp_path / "kafka-logs")
    walk(steps_of("operate/adopt.md"), tmp_path)
