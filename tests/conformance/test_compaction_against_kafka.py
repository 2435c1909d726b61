"""Apache Kafka and ours compact the same transactions: what a read_committed reader gets in the end is the same."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka.server import Kafka
from tests.support.logs.compaction_scenes import SCENES
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

_STEP = re.compile(r"(?P<producer>\d)(?:(?P<end>[+-])|:(?P<key>\w)=(?P<value>\w*))\Z")
_TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "segment.ms": "100",
}
_QUICK_CLEANER = ("log.cleaner.backoff.ms=100",)
Row = tuple[str, str | None]
"""A record's key and value. No offset: Kafka answers the end of a transaction before its markers are written."""


def scenes() -> Iterator[tuple[str, list[str]]]:
    """The scenes that a client can play: transactions alone, none of them empty; the broker decides when to compact."""
    for name, (script, _) in SCENES.items():
        steps = [step for step in script.split() if step not in "/~" and not step.startswith("f=")]
        if all(_STEP.match(step) for step in steps) and "of nothing" not in name:
            yield name, steps


def play(bootstrap: str) -> dict[str, list[Row]]:
    """Play the scenes; return the rows left of each once its tombstones are gone."""
    chosen = {f"scene-{number}": steps for number, (_, steps) in enumerate(scenes())}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=_TOPIC) for topic in chosen]).values():
        created.result(PATIENCE_S)
    producers = {name: Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) for name in "123"}
    for producer in producers.values():
        producer.init_transactions(PATIENCE_S)
    now_ms = int(time.time() * 1000)
    for topic, steps in chosen.items():
        is_open: set[str] = set()
        for number, step in enumerate(steps):
            found = _STEP.match(step)
            assert found is not None
            producer = producers[found["producer"]]
            if found["end"]:
                (producer.commit_transaction if found["end"] == "+" else producer.abort_transaction)(30)
                is_open.discard(found["producer"])
                continue
            if found["producer"] not in is_open:
                producer.begin_transaction()
                is_open.add(found["producer"])
            # Each in a segment of its own, by its time.
            producer.produce(topic, found["value"] or None, found["key"], timestamp=now_ms + number * 1_000)
            producer.flush(PATIENCE_S)
    return _compacted(bootstrap, list(chosen), now_ms)


def _compacted(bootstrap: str, topics: list[str], now_ms: int) -> dict[str, list[Row]]:
    """Fill each topic until the horizons of all tombstones are over: a round more than the one that began them."""
    filler = Producer({"bootstrap.servers": bootstrap})
    end = time.monotonic() + PATIENCE_S
    number = 0
    rows: dict[str, list[Row]] = {}
    while time.monotonic() < end:
        number += 1
        for topic in topics:
            filler.produce(topic, b"%d" % number, b"f", timestamp=now_ms + 60_000 + number * 1_000)
        filler.flush(PATIENCE_S)
        filler.poll(0.3)
        rows = _read(bootstrap, topics)
        if all(
            len({key for key, _ in left}) == len(left) and all(value is not None for _, value in left)
            for left in rows.values()
        ):
            return rows
    raise AssertionError(f"not compacted within {PATIENCE_S} s: {rows}")


def _read(bootstrap: str, topics: list[str]) -> dict[str, list[Row]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    rows: dict[str, list[Row]] = {topic: [] for topic in topics}
    unfinished = set(topics)
    while unfinished:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no record and no end of partition within 30 s"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unfinished.discard(message.topic())
        elif message.key() != b"f":
            value = message.value()
            row = message.key().decode(), value.decode() if value is not None else None
            rows[message.topic()].append(row)
    consumer.close()
    return rows


@pytest.mark.kafka
def test_what_a_reader_gets_of_compacted_transactions_is_what_it_gets_of_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with ExitStack() as stack:
        kafka = Kafka(tmp_path / "kafka", overrides=_QUICK_CLEANER)
        stack.callback(kafka.stop)
        ours = Daemon(tmp_path / "ours", *_QUICK_CLEANER)
        stack.callback(ours.stop)
        expected = [dict(pair.split("=") for pair in SCENES[name][1].split()) for name, _ in scenes()]
        kafkas = play(kafka.bootstrap)
        assert play(ours.bootstrap) == kafkas
        assert [dict(rows) for rows in kafkas.values()] == expected
