"""Spark's sink against a broker, without Spark: each batch once and whole, whichever side dies."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from oncelog.client import Admin, ConfigError, Consumer, KafkaError, Producer, ProducerFenced, TopicPartition
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.faults import Action, ApiKey, FaultClient, Point, Rule, Selector
from oncelog.pipeline.sink.marker import MARKER_TOPIC, Marker, MarkerMismatch, read_markers
from oncelog.pipeline.sink.publish import Moment, Outcome, SinkSettings, Step, publish
from oncelog.pipeline.sink.spool import Spool, SpoolLost, SpoolWriter, TaskOutput
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.tools.spark.state import write_marker
from tests.conftest import Start
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of
from tests.support.spark.driver_death import Death, DriverDied, deaths
from tests.support.spark.sink_batches import (
    NOW_MS,
    OUTPUTS,
    ROWS,
    check,
    check_group,
    group_of,
    make_topics,
    outputs_of,
    read,
    settings,
    wanted,
)

DAY_MS = 86_400_000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("death", deaths(len(OUTPUTS), commits_group=True), ids=repr)
def test_a_driver_that_dies_anywhere_publishes_each_batch_once(daemon: Daemon, death: Death) -> None:
    """The next driver runs the batch again, in other tasks: it is published, or skipped because it was. The offsets
    of a group are committed with it, and at no other time."""
    prefix = f"death-{repr(death).replace(' ', '-')}-"
    asyncio.run(make_topics(daemon.bootstrap, prefix))
    sink = settings(daemon.bootstrap, prefix)
    assert asyncio.run(publish(sink, wanted(0), outputs_of(0, prefix), group_offsets=group_of(0, prefix))).published
    with pytest.raises(DriverDied):
        death.run(publish(sink, wanted(1), outputs_of(1, prefix), death.on_step, group_of(1, prefix)))
    is_committed = death.step is Step.END and death.moment == "after"
    asyncio.run(check_group(daemon.bootstrap, prefix, 2 if is_committed else 1, require_stable=False))
    outputs = outputs_of(1, prefix, task_count=5)
    again = asyncio.run(publish(sink, wanted(1), outputs, group_offsets=group_of(1, prefix)))
    assert again.published is not is_committed
    asyncio.run(check_group(daemon.bootstrap, prefix, 2))
    assert again.outputs == dict.fromkeys(OUTPUTS, ROWS)
    assert asyncio.run(publish(sink, wanted(2), outputs_of(2, prefix))).published
    asyncio.run(check(daemon.bootstrap, prefix, 3))


@pytest.mark.parametrize("point", deaths(len(OUTPUTS), commits_group=True), ids=repr)
async def test_of_two_drivers_one_publishes(daemon: Daemon, point: Death) -> None:
    """A second driver starts and publishes the same batch while the first is between two steps."""
    prefix = f"two-{repr(point).replace(' ', '-')}-"
    await make_topics(daemon.bootstrap, prefix)
    sink = settings(daemon.bootstrap, prefix)
    seen = 0
    second: Outcome | None = None

    async def on_step(step: Step, moment: Moment) -> None:
        nonlocal seen, second
        seen += (step, moment) == (point.step, point.moment)
        if seen == point.nth and second is None:
            outputs = outputs_of(0, prefix, task_count=3)
            second = await publish(sink, wanted(0), outputs, group_offsets=group_of(0, prefix))

    first: Outcome | None = None
    try:
        first = await publish(sink, wanted(0), outputs_of(0, prefix), on_step, group_of(0, prefix))
    except KafkaError as error:
        assert isinstance(error, ProducerFenced)
    assert second is not None
    assert [each.published for each in (first, second) if each is not None].count(True) == 1
    await check(daemon.bootstrap, prefix, 1)
    await check_group(daemon.bootstrap, prefix, 1)


async def test_what_was_published_is_skipped_and_what_contradicts_it_is_refused(daemon: Daemon) -> None:
    await make_topics(daemon.bootstrap, "again-")
    sink = settings(daemon.bootstrap, "again-")
    for batch_id in range(2):
        await publish(sink, wanted(batch_id), outputs_of(batch_id, "again-"))
    skipped = await publish(sink, wanted(1), outputs_of(1, "again-"))
    assert (skipped.published, skipped.records) == (False, 2 * ROWS)
    for bad in (wanted(0), wanted(1, offsets="other"), wanted(3), Marker(2, "another query")):
        with pytest.raises(MarkerMismatch):
            await publish(sink, bad, outputs_of(bad.batch_id, "again-"))
    await check(daemon.bootstrap, "again-", 2)


async def test_an_empty_batch_moves_the_marker(daemon: Daemon) -> None:
    await make_topics(daemon.bootstrap, "empty-")
    sink = settings(daemon.bootstrap, "empty-")
    assert (await publish(sink, wanted(0), [])).published
    assert (await publish(sink, wanted(1), [TaskOutput("totals")])).outputs == {"totals": 0}
    assert (await read_markers(daemon.bootstrap, MARKER_TOPIC))[sink.sink_id].batch_id == 1


async def test_a_transaction_that_another_sink_leaves_open_hides_no_marker(daemon: Daemon) -> None:
    await make_topics(daemon.bootstrap, "open-")
    sink = settings(daemon.bootstrap, "open-")
    await publish(sink, wanted(0), outputs_of(0, "open-"))
    async with Producer(daemon.bootstrap, transactional_id="another sink") as producer:
        async with producer.transaction() as transaction:
            await transaction.send(MARKER_TOPIC, wanted(7).encode(), key=b"another sink", partition=0)
            await publish(sink, wanted(1), outputs_of(1, "open-"))
            assert not (await publish(sink, wanted(1), outputs_of(1, "open-"))).published
            await transaction.abort()
    assert "another sink" not in await read_markers(daemon.bootstrap, MARKER_TOPIC)
    await check(daemon.bootstrap, "open-", 2)


async def test_where_the_marker_is_looked_for_first_changes_nothing_but_how_much_is_read(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints: the newest offset, an older one, one of another sink's marker, the end, far beyond it, none."""
    await make_topics(daemon.bootstrap, "hint-")
    sink = settings(daemon.bootstrap, "hint-")
    offsets = [(await publish(sink, wanted(batch), [])).marker_offset for batch in range(5)]
    other = (await publish(settings(daemon.bootstrap, "hint-other-"), wanted(0), [])).marker_offset
    assert -1 < offsets[0] < offsets[-1] < other
    starts: list[int] = []
    raw_batches = Consumer.raw_batches

    def counted(self: Consumer, partition: TopicPartition, offset: int = 0) -> AsyncIterator[RawBatch]:
        starts.append(offset)
        return raw_batches(self, partition, offset)

    monkeypatch.setattr(Consumer, "raw_batches", counted)
    reads = {offsets[-1]: [offsets[-1]], offsets[1]: [offsets[1]], other: [other, 0], 10**9: [0], -1: [0]}
    for hint, expected in {**reads, other + 2: [0]}.items():
        starts.clear()
        hinted = replace(sink, marker_hint=hint)
        skipped = await publish(hinted, wanted(4), [])
        assert (skipped.published, skipped.marker_offset, starts) == (False, offsets[-1], expected)
        with pytest.raises(MarkerMismatch):
            await publish(hinted, wanted(6), [])
    await write_marker(daemon.bootstrap, MARKER_TOPIC, sink.sink_id, None)
    for hint in reads:
        with pytest.raises(MarkerMismatch, match="there is no marker"):
            await publish(replace(sink, marker_hint=hint), wanted(5), [])


async def test_a_topic_that_forgets_markers_is_refused(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics("forgetful")
    sink = SinkSettings(daemon.bootstrap, "sink-forgetful", marker_topic="forgetful")
    with pytest.raises(ConfigError, match=r"cleanup.policy=compact"):
        await publish(sink, wanted(0), [])


async def test_a_transaction_timeout_that_the_broker_refuses_is_named(daemon: Daemon) -> None:
    with pytest.raises(ConfigError, match=r"kafka.transaction.timeout.ms"):
        await publish(settings(daemon.bootstrap, "long-", transaction_timeout_ms=10**9), wanted(0), [])


async def test_a_spool_file_that_is_cut_short_publishes_nothing(daemon: Daemon, tmp_path: Path) -> None:
    await make_topics(daemon.bootstrap, "cut-")
    spool = Spool.open(str(tmp_path), "cut")
    assert spool is not None
    writer = SpoolWriter(spool)
    writer.add("cut-totals", 0, 1, encode_batch([Record(0, NOW_MS, None, bytes(100_000))]))
    output = writer.finish("totals")
    whole = Path(output.path).read_bytes()
    Path(output.path).write_bytes(whole[:-1])
    sink = settings(daemon.bootstrap, "cut-")
    with pytest.raises(SpoolLost):
        await publish(sink, wanted(0), [output])
    Path(output.path).write_bytes(whole)
    assert (await publish(sink, wanted(0), [output])).published
    assert sum((await read(daemon.bootstrap, "cut-totals")).values()) == 1


def with_faults(start_daemon: Start, *overrides: str) -> tuple[Daemon, FaultClient]:
    daemon = start_daemon("oncelog.admin.listen=127.0.0.1:0", *overrides)
    return daemon, faults_of(daemon)


async def test_a_query_that_was_idle_for_30_days_continues(start_daemon: Start) -> None:
    """Group offsets expire after 7 days, and so do transactional ids: the marker does not, compacted or not."""
    daemon, faults = with_faults(start_daemon)
    await make_topics(daemon.bootstrap, "idle-")
    sink = settings(daemon.bootstrap, "idle-")
    for batch_id in range(3):
        await publish(sink, wanted(batch_id), outputs_of(batch_id, "idle-"))
    for batch_id in range(2, 4):
        for _ in range(30):
            faults.advance_time(DAY_MS)
            async with Producer(daemon.bootstrap) as producer:
                await producer.send("clock", b"the broker is running")
        assert faults.state(sink.sink_id) is None
        assert not (await publish(sink, wanted(batch_id), outputs_of(batch_id, "idle-"))).published
        assert (await publish(sink, wanted(batch_id + 1), outputs_of(batch_id + 1, "idle-"))).published
    assert (await read_markers(daemon.bootstrap, MARKER_TOPIC))[sink.sink_id].batch_id == 4


@pytest.mark.parametrize("timeout_ms", [60_000, None])
async def test_a_publish_may_last_longer_than_60_seconds(start_daemon: Start, timeout_ms: int | None) -> None:
    """The default timeout allows it; Kafka's own fails the whole publish, with an error that names the timeout."""
    daemon, faults = with_faults(start_daemon)
    await make_topics(daemon.bootstrap, "slow-")
    sink = settings(daemon.bootstrap, "slow-", **({} if timeout_ms is None else {"transaction_timeout_ms": timeout_ms}))

    async def on_step(step: Step, moment: Moment) -> None:
        if (step, moment) == (Step.FLUSH, "after"):
            faults.advance_time(100_000)

    if timeout_ms is None:
        assert (await publish(sink, wanted(0), outputs_of(0, "slow-"), on_step)).published
    else:
        with pytest.raises(KafkaError, match="open for too long"):
            await publish(sink, wanted(0), outputs_of(0, "slow-"), on_step)
        assert (await publish(sink, wanted(0), outputs_of(0, "slow-"))).published
    await check(daemon.bootstrap, "slow-", 1)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("api", "action", "point"),
    list(
        product(
            (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE),
            (Action.CRASH, Action.DROP),
            (Point.REQUEST, Point.ANSWER),
        )
    ),
    ids=lambda value: value.name,
)
def test_a_broker_that_dies_or_loses_an_answer_changes_nothing(
    start_daemon: Start, api: ApiKey, action: Action, point: Point
) -> None:
    # Only the first protocol of transactions has a request that adds partitions.
    version = 1 if api is ApiKey.ADD_PARTITIONS_TO_TXN else 2
    daemon, faults = with_faults(start_daemon, f"oncelog.feature.transaction.version={version}")
    asyncio.run(make_topics(daemon.bootstrap, "broker-"))
    sink = settings(daemon.bootstrap, "broker-", retry_backoff_ms=20)
    asyncio.run(publish(sink, wanted(0), outputs_of(0, "broker-")))
    faults.plant(Rule(point, action, Selector(api=api, transactional_id=sink.sink_id)))

    async def publish_through() -> Outcome:
        publishing = asyncio.ensure_future(publish(sink, wanted(1), outputs_of(1, "broker-")))
        if action is Action.CRASH:
            await asyncio.to_thread(daemon.process.wait, 30)
            await asyncio.to_thread(daemon.start)
        return await publishing

    assert asyncio.run(publish_through()).published
    assert not asyncio.run(publish(sink, wanted(1), outputs_of(1, "broker-"))).published
    asyncio.run(check(daemon.bootstrap, "broker-", 2))


async def test_batches_without_a_marker_are_one_transaction(daemon: Daemon) -> None:
    """A batch write without a run id: whole or not at all, and again if it is run again."""
    await make_topics(daemon.bootstrap, "plain-")
    for _ in range(2):
        await publish(settings(daemon.bootstrap, "plain-"), None, outputs_of(0, "plain-"))
    assert set((await read(daemon.bootstrap, "plain-totals")).values()) == {2}
    partition = TopicPartition("plain-totals", 0)
    async with Consumer(bootstrap_servers=daemon.bootstrap) as consumer:
        assert {each.fate async for each in consumer.raw_batches(partition, 0)} == {"committed", "marker"}
