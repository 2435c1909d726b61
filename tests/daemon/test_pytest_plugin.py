"""The pytest plugin as its users have it: in a run of pytest of its own, in a folder that knows nothing of this one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog import TopicPartition
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_MS, PATIENCE_S

_SCOPES = """
import pytest
from oncelog.sync import Producer

pytestmark = pytest.mark.oncelog(partitions=2)
seen = set()

@pytest.mark.parametrize("number", [1, 2, 3])
def test_each(number, oncelog_broker, oncelog_module_broker, oncelog_session_broker):
    with Producer(oncelog_broker.bootstrap_servers) as producer:
        producer.send("orders", b"42")
    assert [each.value for each in oncelog_broker.records("orders")] == [b"42"]
    oncelog_module_broker.produce("shared", b"%d" % number)
    oncelog_session_broker.produce("shared", b"%d" % number)
    seen.add((oncelog_module_broker.bootstrap_servers, oncelog_session_broker.bootstrap_servers))
    assert len(seen) == 1

@pytest.mark.oncelog(partitions=5, config={"auto.create.topics.enable": False})
def test_settings(oncelog_broker, oncelog_module_broker):
    assert oncelog_broker.topics() == []
    topic = oncelog_broker.create_topic()
    for partition in range(5):
        assert oncelog_broker.last_stable_offset(topic, partition) == 0
"""


def run(folder: Path, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_fixtures_of_every_scope_work_alone_and_in_workers(workers: str, tmp_path: Path) -> None:
    done = run(tmp_path, _SCOPES, "-n", workers)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_run_that_asks_for_no_broker_loads_none(tmp_path: Path) -> None:
    text = "import sys\ndef test_nothing():\n    assert not [name for name in sys.modules if name in UNWANTED]\n"
    unwanted = ["asyncio", "uvloop", "structlog", "oncelog"]
    plugins = ["-p", "no:asyncio", "-p", "no:xdist", "-p", "no:timeout", "-p", "no:hypothesispytest", "-p", "no:anyio"]
    done = run(tmp_path, f"UNWANTED = {unwanted!r}\n{text}", *plugins)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("oncelog(3)", "the marker oncelog takes names: @pytest.mark.oncelog(partitions=3)"),
        (
            "oncelog(partition=3)",
            "has no argument 'partition' (did you mean 'partitions'?): it takes part",
        ),
        ("oncelog(config=['num.partitions'])", "config of the marker oncelog is a dict"),
        (
            'oncelog(config={"message.max.byte": 1})',
            "oncelog_broker: unknown setting message.max.byte (from the argument config): "
            "the nearest name is message.max.bytes",
        ),
        ('oncelog(config={"num.partitions": "x"})', "oncelog_broker: num.partitions is 'x' (from the argument config)"),
        ('oncelog(config={"num.partitions": "x"}, process=True)', "oncelog_broker: num.partitions is 'x' (from the ar"),
        ("oncelog(security='SSLX')", "oncelog_broker: security='SSLX': it is one of 'SSL', "),
        ("oncelog(storage='postgresql://localhost:1/x')", "oncelog_broker: cannot reach the schema "),
    ],
)
def test_a_wrong_marker_says_in_one_line_what_is_wrong(marker: str, said: str, tmp_path: Path) -> None:
    text = f"import pytest\n@pytest.mark.{marker}\ndef test_it(oncelog_broker): ...\n"
    done = run(tmp_path, text, "--strict-markers")
    below_its_heading = done.stdout.partition("ERROR at setup of test_it")[2].splitlines()[1:]
    assert said in below_its_heading[0], done.stdout
    assert below_its_heading[1].startswith("==="), done.stdout


def test_a_wrong_setting_in_a_test_is_shown_at_its_own_line(tmp_path: Path) -> None:
    text = "from oncelog.testing import Broker\ndef test_it():\n    Broker(config={'message.max.byte': 1}).start()\n"
    done = run(tmp_path, text)
    assert "the nearest name is message.max.bytes" in done.stdout, done.stdout
    places = re.findall(r"^\S+\.py(?=:\d+: )", done.stdout, re.MULTILINE)
    assert set(places) == {"test_it.py"}, done.stdout


_MARKED = """
import pytest

pytestmark = pytest.mark.oncelog(partitions=5, config={"auto.create.topics.enable": False})

@pytest.mark.oncelog(config={"message.max.bytes": 1000, "compression.type": "lz4"})
class TestMarked:
    @pytest.mark.oncelog(config={"message.max.bytes": 2000})
    def test_nearest(self, oncelog_broker):
        from oncelog.sync import Admin
        oncelog_broker.create_topic("orders")
        assert oncelog_broker.last_stable_offset("orders", 4) == 0
        with Admin(oncelog_broker.bootstrap_servers) as admin:
            found = admin.describe_configs(topic="orders")
            assert (found["max.message.bytes"], found["compression.type"]) == ("2000", "lz4")
            assert admin.describe_configs()["auto.create.topics.enable"] == "false"

    @pytest.mark.oncelog(partitions=1)
    def test_others_stay(self, oncelog_broker):
        oncelog_broker.create_topic("orders")
        oncelog_broker.produce("orders", b"x" * 2000)
"""


def test_markers_of_all_scopes_count_together_and_a_refusal_is_shown_at_the_tests_own_line(tmp_path: Path) -> None:
    done = run(tmp_path, _MARKED, "--strict-markers")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "MESSAGE_TOO_LARGE" in done.stdout
    places = re.findall(r"^\S+\.py(?=:\d+: )", done.stdout, re.MULTILINE)
    assert places and set(places) == {"test_it.py"}, done.stdout


async def test_the_fixture_serves_asyncio_code(oncelog_broker: Broker) -> None:
    from oncelog import Consumer, Producer

    async with Producer(oncelog_broker.bootstrap_servers) as producer:
        await producer.send("orders", b"42")
    async with Consumer(
        "orders", bootstrap_servers=oncelog_broker.bootstrap_servers, group_id="all", auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            assert record.value == b"42"
            break


def test_the_fixture_serves_confluent_kafka(oncelog_broker: Broker) -> None:
    from confluent_kafka import Consumer, Producer

    settings = {"bootstrap.servers": oncelog_broker.bootstrap_servers}
    producer = Producer(settings)
    producer.produce("orders", b"42")
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    (message,) = consumer.consume(1, PATIENCE_S)
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert message.value() == b"42"
    assert oncelog_broker.committed("billing") == {TopicPartition("orders", 0): 1}


def test_the_fixture_serves_kafka_python(oncelog_broker: Broker) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=oncelog_broker.bootstrap_servers)
    producer.send("orders", b"42").get(10)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=oncelog_broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_MS,
    )
    assert next(consumer).value == b"42"
    consumer.close()
    assert oncelog_broker.committed("billing") == {TopicPartition("orders", 0): 1}


async def test_the_fixture_serves_aiokafka(oncelog_broker: Broker) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=oncelog_broker.bootstrap_servers, transactional_id="billing")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("invoices", b"42")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        "invoices",
        bootstrap_servers=oncelog_broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    assert (await consumer.getone()).value == b"42"
    await consumer.stop()
    assert [each.state for each in oncelog_broker.transactions()] == ["CompleteCommit"]
