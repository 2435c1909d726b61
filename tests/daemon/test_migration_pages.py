"""The pages for those who come from another client: both columns do the same, and no name of the other is left out."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import kafka
import pytest

from oncelog import Consumer, ConsumerSettings, NewTopic, Producer, ProducerSettings, TopicPartition, schemas
from oncelog import sync as blocking
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.slow

_DOCS = Path(__file__).parent.parent.parent / "docs" / "clients"
_PAIR = re.compile(
    r"^<tr><td>\n\n```python\n(.*?)^```\n\n</td><td>\n\n```python\n(.*?)^```\n\n</td></tr>", re.MULTILINE | re.DOTALL
)
_NAMES = re.compile(r'"(orders|invoices|refunds|billing|orders-1|billing-1)"')
_SEEDS = (b"41", b"42", b"43")
PAGES = ("aiokafka", "confluent-kafka", "kafka-python")
TASKS = ("send", "read in a group", "transaction", "read, process, write", "administer")


def text_of(page: str) -> str:
    return (_DOCS / f"from-{page}.md").read_text(encoding="utf-8")


def test_every_page_has_every_task() -> None:
    assert [len(_PAIR.findall(text_of(page))) for page in PAGES] == [len(TASKS)] * len(PAGES)
    assert [text_of(page).count("```python") for page in PAGES] == [2 * len(TASKS)] * len(PAGES)


class Left(NamedTuple):
    """The output of a program, and the records and offset that it left behind."""

    printed: str
    orders: list[bytes | None]
    invoices: list[bytes | None]
    committed: int | None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("page", "task"), list(product(PAGES, range(len(TASKS)))))
def test_both_columns_print_the_same_and_leave_the_same_behind(daemon: Daemon, page: str, task: int) -> None:
    suffixes = [f"-{page}-{task}-{side}" for side in ("theirs", "ours")]
    with ThreadPoolExecutor(2) as both:
        theirs, ours = both.map(left_by, (daemon, daemon), _PAIR.findall(text_of(page))[task], suffixes)
    assert ours == theirs
    assert ours != Left("", list(_SEEDS), [], None), "nothing was seen to happen"


def left_by(daemon: Daemon, program: str, suffix: str) -> Left:
    """Each program has topics, a group and ids of its own."""
    with blocking.Producer(daemon.bootstrap) as producer:
        for value in _SEEDS:
            producer.send(f"orders{suffix}", value)
    text = _NAMES.sub(rf'"\1{suffix}"', program).replace("localhost:9092", daemon.bootstrap)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    with blocking.Admin(daemon.bootstrap) as admin:
        committed = admin.list_group_offsets(f"billing{suffix}").get(TopicPartition(f"orders{suffix}", 0))
        known = admin.list_topics()
    topics = (f"{name}{suffix}" for name in ("orders", "invoices"))
    found = [read(daemon, each) if each in known else [] for each in topics]
    return Left(done.stdout, *found, None if committed is None else committed.offset)


def read(daemon: Daemon, topic: str) -> list[bytes | None]:
    """Return the committed values of the topic."""
    place = TopicPartition(topic, 0)
    with blocking.Consumer(bootstrap_servers=daemon.bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found: list[bytes | None] = []
        while consumer.position(place) < end:
            found += [each.value for each in consumer.poll(1_000)]
        return found


# --- what behaves differently -----------------------------------------------------------------------------------------


def test_the_defaults_that_differ_are_theirs() -> None:
    producer, consumer = (
        {name: each.default for name, each in inspect.signature(kind.__init__).parameters.items()}
        for kind in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)
    )
    assert (producer["enable_idempotence"], producer["linger_ms"]) == (False, 0)
    assert [consumer[name] for name in ("enable_auto_commit", "isolation_level", "session_timeout_ms")] == [
        True,
        "read_uncommitted",
        10_000,
    ]
    assert [each.name for each in consumer["partition_assignment_strategy"]] == ["roundrobin"]
    sync = {**kafka.KafkaProducer.DEFAULT_CONFIG, **kafka.KafkaConsumer.DEFAULT_CONFIG}
    assert [sync[name] for name in ("linger_ms", "enable_auto_commit", "isolation_level")] == [
        0,
        True,
        "read_uncommitted",
    ]


async def test_members_of_aiokafka_and_of_ours_share_a_group(daemon: Daemon) -> None:
    with blocking.Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic("shared", partition_count=2))
    options: Any = {"bootstrap_servers": daemon.bootstrap, "group_id": "of-both", "heartbeat_interval_ms": 100}
    async with aiokafka.AIOKafkaConsumer("shared", **options) as theirs, Consumer("shared", **options) as ours:
        async with asyncio.timeout(PATIENCE_S):
            while (len(theirs.assignment()), len(ours.assignment())) != (1, 1):
                await ours.poll(50)
                await theirs.getmany(timeout_ms=50)
        assert {*theirs.assignment(), *ours.assignment()} == {("shared", 0), ("shared", 1)}


def test_only_librdkafka_sends_a_key_to_another_partition_unless_configured(daemon: Daemon) -> None:
    keys = [b"customer-%d" % number for number in range(40)]
    with blocking.Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic("hashed", partition_count=8))
    with blocking.Producer(daemon.bootstrap) as producer:
        expected = [producer.send("hashed", b"", key=key).partition for key in keys]
    python = kafka.KafkaProducer(bootstrap_servers=daemon.bootstrap)
    assert [python.send("hashed", b"", key=key).get(timeout=PATIENCE_S).partition for key in keys] == expected
    python.close()
    told = {"partitioner": "murmur2_random"}
    assert chosen_by_confluent(daemon, keys, told) == expected
    assert chosen_by_confluent(daemon, keys, {}) != expected


def chosen_by_confluent(daemon: Daemon, keys: list[bytes], more: dict[str, Any]) -> list[int]:
    found: dict[bytes, int] = {}
    producer = confluent_kafka.Producer({"bootstrap.servers": daemon.bootstrap, **more})
    for key in keys:
        producer.produce("hashed", b"", key, on_delivery=lambda _, sent: found.update({sent.key(): sent.partition()}))
    producer.flush(PATIENCE_S)
    return [found[key] for key in keys]


# --- the table of names -----------------------------------------------------------------------------------------------

_OPTIONS = {
    kind: {each.name for each in fields(settings)}
    for kind, settings in (("producer", ProducerSettings), ("consumer", ConsumerSettings))
}


def listed(page: str) -> list[str]:
    """Words in code in the first column of the table of names."""
    rows = text_of(page).partition("## Name by name")[2].splitlines()
    columns = [row.split(" | ")[0] for row in rows if row.startswith("| ")]
    return [
        word for column in columns for code in re.findall(r"`([^`]+)`", column) for word in re.findall(r"[\w.*]+", code)
    ]


def public(kind: Any) -> set[str]:
    return {name for name, value in inspect.getmembers(kind) if not name.startswith("_") and callable(value)}


def options(kind: Any) -> set[str]:
    defaults = getattr(kind, "DEFAULT_CONFIG", None)
    named = set(inspect.signature(kind.__init__).parameters) if defaults is None else set(defaults)
    return named - {"self", "topics", "bootstrap_servers"}


@pytest.mark.parametrize(
    "page, producer, consumer",
    [
        ("aiokafka", aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer),
        ("kafka-python", kafka.KafkaProducer, kafka.KafkaConsumer),
        ("confluent-kafka", confluent_kafka.Producer, confluent_kafka.Consumer),
    ],
)
def test_no_method_and_no_option_of_theirs_is_left_out(page: str, producer: Any, consumer: Any) -> None:
    names = listed(page)
    assert len(names) > 20
    for kind, theirs, ours in (("producer", producer, Producer), ("consumer", consumer, Consumer)):
        wanted = public(theirs) - public(ours)
        if page != "confluent-kafka":  # whose options are librdkafka's properties
            wanted |= options(theirs) - _OPTIONS[kind]
        missing = [each for each in sorted(wanted) if not any(fnmatchcase(each, name) for name in names)]
        assert missing == [], kind


def test_the_names_of_ours_exist() -> None:
    known = set().union(*(public(each) for each in ours()), *_OPTIONS.values(), schemas.__all__)
    for page in PAGES:
        rows = text_of(page).partition("## Name by name")[2].splitlines()
        for row in rows:
            for code in re.findall(r"^\| .* \| `(\w+)`(?:,| \||$)", row):
                assert code in known | {"Producer", "with", "async"}, row


def ours() -> Iterator[Any]:
    from oncelog import Admin, Transaction, TransactionalSession

    yield from (Admin, Consumer, Producer, Transaction, TransactionalSession)
