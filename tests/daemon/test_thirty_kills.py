"""The real daemon is killed (-9) again and again under librdkafka's clients, and their history breaks no invariant.

Three kills in every run of the tests, thirty where there is time (`-m slow`).
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.conftest import Start
from tests.history.auditor import audit, require_at_least, tally
from tests.history.events import FINAL, Bounds, Partition, Poll, Restart
from tests.history.log_reader import read_files
from tests.support.foreign import kill_run as clients
from tests.support.foreign.kill_run import GROUP, INPUT, LEGS, OUTPUT, Run
from tests.support.patience import PATIENCE_S

PARTITIONS = (*LEGS, INPUT, OUTPUT)
TRANSFERS = 3


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_no_invariant_is_broken_while_the_daemon_is_killed(start_daemon: Start, kills: int) -> None:
    daemon = start_daemon()
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap, "log_level": 0})
    wanted = [NewTopic("ledger", len(LEGS), 1), NewTopic("input", 1, 1), NewTopic("output", 1, 1)]
    for future in admin.create_topics(wanted).values():
        future.result(PATIENCE_S)
    run = Run(daemon.bootstrap)
    with at_work(run):
        pause, random = threading.Event(), Random(kills)
        for number in range(kills):
            await_commits(run, 2 * number + 1)
            pause.wait(random.uniform(0.5, 1.5))
            daemon.kill()
            run.recorder.history.restarts.append(Restart(run.recorder.tick(), "kill"))
            # What clients do about a broker depends on how long it is away.
            pause.wait(random.choice((0.0, 1.5)))
            daemon.start()
        await_commits(run, 2 * kills + 1)
        pause.wait(1)
    await_stable(run, admin)
    read_everything(run)
    daemon.stop()
    history = run.recorder.history
    for topic, index in PARTITIONS:
        history.logs[topic, index] = read_files(daemon.data_dir / f"{topic}-{index}")
    # A run in which little happens would prove little.
    floors = {"restarts": kills, "commits": 2 * kills, "aborts": kills // 2, "sends": 10 * kills, "offsets": kills // 2}
    require_at_least(tally(history), inits=TRANSFERS, **floors)
    audit(history)


@contextmanager
def at_work(run: Run) -> Iterator[None]:
    """All clients, each in a thread of its own; what one of them raises fails the test."""
    lives = [partial(clients.transfers, run, number) for number in range(TRANSFERS)]
    lives += [partial(clients.processes, run, TRANSFERS), partial(clients.feeds, run), partial(clients.follows, run)]
    with ThreadPoolExecutor(len(lives)) as threads:
        running = [threads.submit(life) for life in lives]
        try:
            yield
        finally:
            run.is_over.set()
        for future in running:
            future.result(2 * PATIENCE_S)


def await_commits(run: Run, count: int) -> None:
    """Wait until so many commits were answered, however little time a busy machine has for the clients."""
    pause = threading.Event()
    while sum(end.is_commit and end.span.is_ok for end in run.recorder.history.ends) < count:
        pause.wait(0.1)


def await_stable(run: Run, admin: AdminClient) -> None:
    """Wait until every transaction has ended; abandoned transactions time out."""
    pause, tries = threading.Event(), 0
    while True:
        stable, durable = ends(admin, IsolationLevel.READ_COMMITTED), ends(admin, IsolationLevel.READ_UNCOMMITTED)
        if stable == durable:
            break
        tries += 1
        assert tries < 300, f"{stable} and {durable}"
        pause.wait(0.1)
    for partition, end in durable.items():
        bounds = Bounds(run.recorder.now(), partition, 0, stable[partition], end)
        run.recorder.history.bounds.append(bounds)


def ends(admin: AdminClient, level: IsolationLevel) -> dict[Partition, int]:
    asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in PARTITIONS}
    found = admin.list_offsets(asked, isolation_level=level, request_timeout=PATIENCE_S)
    return {(each.topic, each.partition): future.result(PATIENCE_S).offset for each, future in found.items()}


def read_everything(run: Run) -> None:
    history = run.recorder.history
    wanted = {bounds.partition: bounds.high_watermark for bounds in history.bounds}
    for is_committed in (True, False):
        for partition, end in wanted.items():
            consumer = clients.new_consumer(run, f"{FINAL}-{is_committed}", is_committed=is_committed)
            records = read_to(consumer, partition, end)
            poll = Poll(run.recorder.now(), FINAL, is_committed, partition, 0, end, records)
            history.polls.append(poll)
            consumer.close()
    consumer = clients.new_consumer(run, GROUP)
    clients.committed_offset(run, consumer)
    consumer.close()


def read_to(consumer: Consumer, partition: Partition, end: int) -> tuple[tuple[int, bytes], ...]:
    consumer.assign([TopicPartition(*partition, 0)])
    records: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            records.append((message.offset(), message.value() or b""))
        (position,) = consumer.position([TopicPartition(*partition)])
        if message is None and (position.offset >= end or end == 0):
            return tuple(records)
