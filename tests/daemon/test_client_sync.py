"""The client without an event loop, the facade that people import, and another loop underneath."""

import queue
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
import uvloop

from oncelog.client import Consumer as AsyncConsumer
from oncelog.client import NewTopic, TopicPartition
from oncelog.client import Producer as AsyncProducer
from oncelog.client.blocking.clients import Admin, Consumer, Delivery, Producer, TransactionalSession
from oncelog.client.values.errors import InvalidState, ProducerFenced
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon

ROOT = Path(__file__).parent.parent.parent


def new_topic(daemon: Daemon, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions, 1))
        assert name in admin.list_topics()
    return name


def test_records_and_transactions_without_a_loop(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    place = TopicPartition(topic, 0)
    with (
        Producer(daemon.bootstrap, transactional_id=topic) as producer,
        Consumer(bootstrap_servers=daemon.bootstrap, group_id=topic) as consumer,
    ):
        with producer.transaction() as transaction:
            delivery = transaction.send_soon(topic, b"0")
            transaction.send_many(topic, [(None, b"%d" % number) for number in range(1, 1000)])
            transaction.send_offsets({place: 7}, group=consumer)
        assert (transaction.state, delivery.result(PATIENCE_S).offset) == ("committed", 0)
        with pytest.raises(ZeroDivisionError), producer.transaction() as transaction:
            transaction.send(topic, b"aborted")
            raise ZeroDivisionError
        assert transaction.state == "aborted"
        assert consumer.committed(place)[place].offset == 7
        consumer.assign([place])
        consumer.seek(place, 990)
        values: list[bytes | None] = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 10:
                break
        assert values == [b"%d" % number for number in range(990, 1000)]
        fates = [batch.fate for batch in consumer.raw_batches(place)]
        assert fates[-2:] == ["aborted", "marker"]


def test_a_zombie_is_refused_without_a_loop(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    with Producer(daemon.bootstrap, transactional_id=topic) as first:
        with pytest.raises(ProducerFenced), first.transaction() as transaction:
            transaction.send(topic, b"zombie")
            with Producer(daemon.bootstrap, transactional_id=topic):
                pass  # opening it is enough


def test_leaving_the_block_ends_the_thread_and_what_is_closed_says_so(daemon: Daemon) -> None:
    before = threading.active_count()
    with Producer(daemon.bootstrap) as producer:
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    with pytest.raises(InvalidState):
        producer.send("t", b"x")


def test_the_client_runs_on_uvloop(daemon: Daemon) -> None:
    topic = new_topic(daemon)

    async def work() -> list[bytes | None]:
        async with AsyncProducer(daemon.bootstrap) as producer:
            await producer.send(topic, b"x")
        async with AsyncConsumer(topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
            return [record.value for record in await consumer.poll(PATIENCE_MS)]

    assert uvloop.run(work()) == [b"x"]


def run_python(code: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r}); {code}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"PATH": "/usr/bin:/bin"},
    )


def test_the_facade_loads_the_client_when_it_is_used(tmp_path: Path) -> None:
    told = "print('oncelog.client' in sys.modules)"
    quick = run_python(f"import oncelog; {told}; oncelog.Producer; {told}", tmp_path)
    assert quick.stdout.split() == ["False", "True"], quick.stderr


def test_a_session_and_batches_without_a_loop(daemon: Daemon) -> None:
    topic, out = new_topic(daemon), new_topic(daemon)
    with Producer(daemon.bootstrap) as producer:
        producer.send_many(topic, [(None, b"%d" % number) for number in range(10)])
    done = 0
    with TransactionalSession(
        topic, bootstrap_servers=daemon.bootstrap, group_id=topic, max_records=4, value_deserializer=int
    ) as session:
        for batch in session:
            with batch:
                for record in batch:
                    batch.send_soon(out, b"%d" % (record.value or 0))
            assert (batch.committed, batch.error, batch.transaction.state) == (True, None, "committed")
            done += len(batch)
            if done == 5 + 5:
                break
            if done == 4:
                with pytest.raises(ZeroDivisionError):
                    with next(iter(session)) as batch:
                        batch.send(out, b"aborted")
                        raise ZeroDivisionError
                assert session.consumer.position(TopicPartition(topic, 0)) == 4
    with Consumer(out, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
        values: list[bytes | None] = []
        for records in consumer.batches(max_records=3):
            assert len(records) <= 3
            values += [each.value for each in records]
            if len(values) == 10:
                break
    assert values == [b"%d" % number for number in range(10)]


def test_a_blocking_client_may_be_closed_in_its_block_and_calls_back_in_its_thread(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    called: queue.SimpleQueue[tuple[Delivery, str]] = queue.SimpleQueue()
    with Producer(daemon.bootstrap) as producer:
        delivery = producer.send_soon(topic, b"value")
        delivery.add_done_callback(lambda each: called.put((each, threading.current_thread().name)))
        assert called.get(timeout=PATIENCE_S) == (delivery, "Producer")
        assert delivery.done()
        producer.close()
        with pytest.raises(InvalidState, match="closed"):
            producer.send(topic, b"value")
    with pytest.raises(InvalidState, match="not open"):
        Producer(daemon.bootstrap).send(topic, b"value")


OPENED = {
    "Producer": "Producer(HOST)",
    "Consumer": 'Consumer("TOPIC", bootstrap_servers=HOST)',
    "Admin": "Admin(HOST)",
    "TransactionalSession": 'TransactionalSession("TOPIC", bootstrap_servers=HOST, group_id="TOPIC")',
}
BLOCKING = """\
from oncelog.sync import {kind}
HOST = {host!r}
client = {made}
client.__enter__()
"""
ASYNCIO = """\
import asyncio
from oncelog import {kind}
HOST = {host!r}
async def main():
    client = {made}
    await client.__aenter__()
asyncio.run(main())
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize(("program", "line"), [(BLOCKING, 3), (ASYNCIO, 5)], ids=["blocking", "asyncio"])
def test_a_program_that_does_not_close_its_client_is_warned_in_one_line(
    daemon: Daemon, tmp_path: Path, kind: str, program: str, line: int
) -> None:
    """Nothing else is on the screen, and the program ends as it would."""
    script = tmp_path / "program.py"
    made = OPENED[kind].replace("TOPIC", new_topic(daemon))
    script.write_text(program.format(kind=kind, host=daemon.bootstrap, made=made))
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == [
        f"{script}:{line}: a {kind} was not closed: use it in a `with` block, or call close()"
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", OPENED)
def test_a_blocking_client_that_is_closed_prints_nothing(daemon: Daemon, tmp_path: Path, kind: str) -> None:
    """Closing a client, by `close` or by leaving its block, prints no warning."""
    made = OPENED[kind].replace("TOPIC", new_topic(daemon))
    script = tmp_path / "program.py"
    program = BLOCKING.format(kind=kind, host=daemon.bootstrap, made=made)
    script.write_text(f"{program}client.close()\nwith {made}:\n    pass\n")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
