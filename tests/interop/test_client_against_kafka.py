"""Our client against our daemon, in both protocols of transactions (KIP-890), and, where its jars are, against Apache
Kafka: the same tests, the same answers."""

import asyncio
from collections.abc import Iterator

import pytest

from oncelog.client import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    Record,
    TopicPartition,
)
from oncelog.client.consuming.ranges import RangeReader
from oncelog.client.options.choices import Acks, Compression
from oncelog.client.options.option_types import ConsumerOptions, ProducerOptions
from oncelog.client.values.errors import (
    CommitFailed,
    ConfigError,
    InvalidState,
    KafkaError,
    NoOffsetForPartition,
    ProducerFenced,
    TransactionAborted,
)
from oncelog.client.values.records import IsolationLevel
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.control import ControlRecordType
from oncelog.protocol.records.record import decode_records
from tests.clients.topics import new_topic, until_stable
from tests.support.foreign.interop import unique
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_S


@pytest.fixture(scope="module", params=[*ON_BOTH, "oncelog-first-protocol"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    overrides = ["oncelog.feature.transaction.version=1"] if request.param == "oncelog-first-protocol" else []
    with serving(request.param, tmp_path_factory.mktemp(request.param), *overrides) as bootstrap:
        yield bootstrap


async def read_all(
    bootstrap: str,
    topic: str,
    isolation_level: IsolationLevel = "read_committed",
    partitions: int = 1,
    *,
    with_open: bool = False,
) -> list[Record]:
    """Everything up to where this isolation level may read; returns only when the positions are there."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    if not with_open:
        await until_stable(bootstrap, *places)
    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        records: list[Record] = []
        while any([await consumer.position(place) < ends[place] for place in places]):
            records += await consumer.poll(20_000)
        return records


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_are_read_back_whole_and_in_order(bootstrap: str, acks: Acks) -> None:
    topic = await new_topic(bootstrap)
    headers = (("name", b"value"), ("empty", None))
    async with Producer(bootstrap, acks=acks, batch_size=500, linger_ms=0) as producer:
        for number in range(300):
            await producer.send_soon(topic, b"%d" % number, key=b"key", headers=headers, timestamp_ms=1000 + number)
        last = await producer.send(topic, None)
    assert last.offset == (300 if acks else -1)
    records: list[Record] = []
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while len(records) < 301:
            records += await consumer.poll(20_000)
    assert records[:300] == [
        Record(topic, 0, number, 1000 + number, b"key", b"%d" % number, headers) for number in range(300)
    ]
    assert (records[300].key, records[300].value) == (None, None)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_records_are_read_back(bootstrap: str, compression: Compression) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, compression_type=compression) as producer:
        for number in range(50):
            await producer.send_soon(topic, b"%d" % number * 100)
    assert values(await read_all(bootstrap, topic)) == [b"%d" % number * 100 for number in range(50)]


async def test_read_committed_shows_what_is_committed_and_its_position_moves_past_the_rest(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with (
        Producer(bootstrap, transactional_id=unique("id"), linger_ms=0) as producer,
        Producer(bootstrap) as plain,
    ):
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"aborted")
                raise ZeroDivisionError
        assert transaction.state == "aborted"
        await plain.send(topic, b"plain")
        async with producer.transaction() as transaction:
            delivery = await transaction.send_soon(topic, b"committed")
        assert (transaction.state, (await delivery).offset) == ("committed", 3)
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"open")
            assert values(await read_all(bootstrap, topic, with_open=True)) == [b"plain", b"committed"]
            everything = await read_all(bootstrap, topic, "read_uncommitted", with_open=True)
            assert values(everything) == [b"aborted", b"plain", b"committed", b"open"]
    assert values(await read_all(bootstrap, topic)) == [b"plain", b"committed", b"open"]


async def test_a_transaction_covers_several_partitions_and_topics(bootstrap: str) -> None:
    topic, other = await new_topic(bootstrap, 3), await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        for outcome in ("commit", "abort", "commit"):
            async with producer.transaction() as transaction:
                for index in range(3):
                    await transaction.send_soon(topic, outcome.encode(), partition=index)
                await transaction.send_soon(other, outcome.encode())
                await (transaction.commit() if outcome == "commit" else transaction.abort())
    assert values(await read_all(bootstrap, topic, partitions=3)) == [b"commit"] * 6
    assert values(await read_all(bootstrap, other)) == [b"commit"] * 2


async def test_what_was_not_sent_when_a_transaction_aborts_fails_with_it(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id"), linger_ms=60_000) as producer:
        async with producer.transaction() as transaction:
            delivery = await transaction.send_soon(topic, b"never")
            await transaction.abort()
        with pytest.raises(TransactionAborted):
            await delivery
        async with producer.transaction() as transaction:
            await transaction.send_soon(topic, b"next")
    assert values(await read_all(bootstrap, topic)) == [b"next"]


async def test_a_cancelled_task_aborts_its_transaction(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id"), linger_ms=0) as producer:
        transaction = producer.transaction()

        async def work() -> None:
            async with transaction:
                await transaction.send(topic, b"cancelled")
                await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        async with Consumer(topic, bootstrap_servers=bootstrap, isolation_level="read_uncommitted") as consumer:
            await consumer.seek_to_beginning()
            assert values(await consumer.poll(20_000)) == [b"cancelled"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transaction.state == "aborted"
        assert values(await read_all(bootstrap, topic)) == []


async def test_offsets_sent_in_a_transaction_are_committed_with_it_and_dropped_with_it(bootstrap: str) -> None:
    topic, group = await new_topic(bootstrap), ConsumerGroupMetadata(unique("group"))
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=unique("id")) as producer, Admin(bootstrap) as admin:
        async with producer.transaction() as transaction:
            await transaction.send_offsets({place: OffsetAndMetadata(5, "note")}, group=group)
            before = await admin.list_group_offsets(group.group_id, [place], require_stable=False)
        after = await admin.list_group_offsets(group.group_id, [place])
        async with producer.transaction() as transaction:
            await transaction.send_offsets({place: 9}, group=group)
            await transaction.abort()
        assert (before, after[place][:2]) == ({}, (5, "note"))
        assert (await admin.list_group_offsets(group.group_id, [place]))[place].offset == 5


async def test_a_bare_group_id_is_refused(bootstrap: str) -> None:
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        with pytest.raises(ConfigError, match="ConsumerGroupMetadata"):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({}, group="group")  # type: ignore[arg-type]


async def test_a_zombie_is_refused_by_code_and_stays_refused(bootstrap: str) -> None:
    topic, identity = await new_topic(bootstrap), unique("id")
    async with Producer(bootstrap, transactional_id=identity, linger_ms=0) as zombie:
        with pytest.raises(ProducerFenced) as refused:
            async with zombie.transaction() as transaction:
                await transaction.send(topic, b"zombie")
                async with Producer(bootstrap, transactional_id=identity) as successor:
                    before = transaction.producer_epoch
                    assert (await successor.init_transactions()).producer_epoch > before
                    async with successor.transaction() as second:
                        await second.send(topic, b"successor")
        assert (refused.value.code, refused.value.by) == (ErrorCode.PRODUCER_FENCED, "instance")
        for work in (transaction.commit(), transaction.send(topic, b"again"), zombie.init_transactions()):
            with pytest.raises(ProducerFenced):
                await work
    assert values(await read_all(bootstrap, topic)) == [b"successor"]


async def test_a_zombie_that_writes_is_refused_by_the_partition(bootstrap: str) -> None:
    topic, identity = await new_topic(bootstrap), unique("id")
    async with Producer(bootstrap, transactional_id=identity, linger_ms=0) as zombie:
        with pytest.raises(ProducerFenced):
            async with zombie.transaction() as transaction:
                await transaction.send(topic, b"zombie")
                async with Producer(bootstrap, transactional_id=identity) as successor:
                    await successor.init_transactions()
                await transaction.send(topic, b"again")
        assert transaction.state == "fenced"
    assert await read_all(bootstrap, topic) == []


async def test_a_batch_sent_twice_is_written_once_and_answered_with_the_first_offset(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap) as producer:
        await producer.send(topic, b"before")
        first = await producer.send(topic, b"twice")
        assert (await producer.resend_last_batch(topic, 0)).offset == first.offset == 1
    assert values(await read_all(bootstrap, topic)) == [b"before", b"twice"]


async def test_an_empty_transaction_costs_nothing_and_the_next_one_works(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        for _ in range(3):
            async with producer.transaction():
                pass
        async with producer.transaction() as transaction:
            await transaction.send_soon(topic, b"x")
    assert values(await read_all(bootstrap, topic)) == [b"x"]


async def test_a_record_that_is_too_large_fails_alone(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, max_message_bytes="1000")
    async with Producer(bootstrap, linger_ms=0) as producer:
        await producer.send(topic, b"1")
        deliveries = [await producer.send_soon(topic, value) for value in (b"x" * 20_000, b"2", b"3")]
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await deliveries[0]
        assert [(await each).offset for each in deliveries[1:]] == [1, 2]
    assert values(await read_all(bootstrap, topic)) == [b"1", b"2", b"3"]


async def test_a_failed_record_aborts_its_transaction_and_the_next_one_has_a_new_epoch(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, max_message_bytes="1000")
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction() as failed:
                await failed.send_soon(topic, b"small")
                await failed.send_soon(topic, b"x" * 20_000)
        assert failed.state == "aborted"
        epoch = failed.producer_epoch
        async with producer.transaction() as transaction:
            await transaction.send_soon(topic, b"next")
            assert transaction.producer_epoch > epoch
    assert values(await read_all(bootstrap, topic)) == [b"next"]


async def test_each_transaction_has_an_epoch_of_its_own_in_the_second_protocol(
    bootstrap: str, request: pytest.FixtureRequest
) -> None:
    """Epochs of the first protocol stay the same, so a late request of the last transaction can reach the next."""
    topic = await new_topic(bootstrap)
    epochs = []
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        for number in range(3):
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"%d" % number)
            epochs.append(transaction.producer_epoch)
    assert len(set(epochs)) == (1 if "first-protocol" in request.node.name else 3)
    assert values(await read_all(bootstrap, topic)) == [b"0", b"1", b"2"]


async def test_what_is_waited_for_does_not_linger(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    options = ProducerOptions(linger_ms=120_000, delivery_timeout_ms=150_000)
    async with asyncio.timeout(PATIENCE_S), Producer(bootstrap, transactional_id=unique("id"), **options) as producer:
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"a")
            deliveries = [await transaction.send_soon(topic, value) for value in (b"b", b"c")]
            await deliveries[0]
    assert values(await read_all(bootstrap, topic)) == [b"a", b"b", b"c"]


async def test_what_is_awaited_side_by_side_shares_a_batch(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, linger_ms=0) as producer:
        await producer.send(topic, b"the first batch of a producer is sent alone")
        await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(50)))
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        batches = [each async for each in consumer.raw_batches(TopicPartition(topic, 0))]
    assert [len(each.records()) for each in batches] == [1, 50]


async def test_flush_raises_a_failure_that_no_delivery_has_raised(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, max_message_bytes="1000")
    async with Producer(bootstrap) as producer:
        await producer.send_soon(topic, b"x" * 20_000)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        await producer.flush()


async def test_every_batch_is_shown_with_its_fate(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with (
        Producer(bootstrap, transactional_id=unique("id"), linger_ms=0) as producer,
        Producer(bootstrap) as plain,
    ):
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"a")
            await transaction.abort()
        await plain.send(topic, b"p")
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"c")
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"o")
            async with Consumer(bootstrap_servers=bootstrap) as consumer:
                batches = [each async for each in consumer.raw_batches(TopicPartition(topic, 0))]
    assert [each.fate for each in batches] == ["aborted", "marker", "plain", "committed", "marker", "open"]
    markers = [each.control_type for each in batches if each.fate == "marker"]
    assert markers == [ControlRecordType.ABORT, ControlRecordType.COMMIT]
    assert [record.value for each in batches for record in each.records()] == [b"a", b"p", b"c", b"o"]
    assert (batches[-1].last_stable_offset, batches[-1].high_watermark) == (5, 6)


async def test_a_range_has_what_the_isolation_level_shows_up_to_an_end_that_is_a_marker(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        for outcome in ("commit", "abort", "commit"):
            async with producer.transaction() as transaction:
                for number in range(3):
                    await transaction.send_soon(topic, b"%d" % number)
                await producer.flush()
                if outcome == "abort":
                    await transaction.abort()
    async with Admin(bootstrap) as admin:
        (described,) = await admin.describe_topics(topic)
    shown: dict[IsolationLevel, list[int]] = {"read_committed": [], "read_uncommitted": []}
    for isolation, offsets in shown.items():
        async with RangeReader(bootstrap_servers=bootstrap, isolation_level=isolation) as reader:
            async for piece in reader.read(TopicPartition(topic, 0), 0, 12, topic_id=described.topic_id):
                offsets += [record.offset for _, batch in piece.batches for record in decode_records(batch)]
    assert shown == {"read_committed": [0, 1, 2, 8, 9, 10], "read_uncommitted": [0, 1, 2, 4, 5, 6, 8, 9, 10]}


async def test_a_group_continues_where_it_committed(bootstrap: str) -> None:
    topic, group = await new_topic(bootstrap), unique("group")
    async with Producer(bootstrap) as producer:
        for number in range(10):
            await producer.send_soon(topic, b"%d" % number)
    heard: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    for stop in (3, 6):
        async with Consumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                if record.value == b"%d" % stop:
                    break
            if stop == 3:
                # Records that were fetched and not handed out are not committed.
                await consumer.commit_sync()
            else:
                consumer.commit_async(callback=lambda _, error: heard.set_result(error))
                assert await heard is None
    async with Consumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        assert (await consumer.poll(20_000))[0].value == b"7"
        assert (await consumer.committed(TopicPartition(topic, 0)))[TopicPartition(topic, 0)].offset == 7


async def test_automatic_commits_cover_what_was_handed_out_before(bootstrap: str) -> None:
    topic, group = await new_topic(bootstrap), unique("group")
    async with Producer(bootstrap) as producer:
        await producer.send_soon(topic, b"0")
        await producer.send_soon(topic, b"1")
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=True
    ) as consumer:
        assert values(await consumer.poll(20_000, 1)) == [b"0"]
    async with Consumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        assert values(await consumer.poll(20_000)) == [b"1"]


async def poll_until(consumers: list[Consumer], shares: list[int]) -> None:
    """All of them work until each has as many partitions as `shares` says."""
    async with asyncio.timeout(PATIENCE_S):
        while sorted(len(each.assignment()) for each in consumers) != shares:
            await asyncio.gather(*(each.poll(50) for each in consumers))


async def test_members_share_the_partitions_and_take_over_from_those_who_leave(bootstrap: str) -> None:
    topic, group = await new_topic(bootstrap, 4), unique("group")
    told: list[tuple[str, int]] = []

    async def on_assign(partitions: object) -> None:
        told.append(("assign", len(list(partitions))))  # type: ignore[call-overload]

    async def on_revoke(partitions: object) -> None:
        told.append(("revoke", len(list(partitions))))  # type: ignore[call-overload]

    async with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        heartbeat_interval_ms=50,
        session_timeout_ms=10_000,
        on_assign=on_assign,
        on_revoke=on_revoke,
    ) as first:
        await poll_until([first], [4])
        async with Consumer(
            topic, bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=50, session_timeout_ms=10_000
        ) as second:
            await poll_until([first, second], [2, 2])
            assert not set(first.assignment()) & set(second.assignment())
        await poll_until([first], [4])
    assert told == [("assign", 4), ("revoke", 4), ("assign", 2), ("revoke", 2), ("assign", 4), ("revoke", 4)]


async def test_a_member_that_the_group_forgot_can_commit_nothing_in_any_way(bootstrap: str) -> None:
    topic, group = await new_topic(bootstrap), unique("group")
    place = TopicPartition(topic, 0)
    stale = ConsumerGroupMetadata(group, 1, "nobody")
    async with Consumer(topic, bootstrap_servers=bootstrap, group_id=group) as member:
        await poll_until([member], [1])
        async with Producer(bootstrap, transactional_id=unique("id")) as producer:
            with pytest.raises(CommitFailed):
                async with producer.transaction() as transaction:
                    await transaction.send_offsets({place: 3}, group=stale)
            assert transaction.state == "aborted"
            async with producer.transaction() as transaction:
                await transaction.send_offsets({place: 4}, group=member)
        assert (await member.committed(place))[place].offset == 4
        async with Consumer(bootstrap_servers=bootstrap, group_id=group) as outsider:
            outsider.assign([place])
            with pytest.raises(CommitFailed):
                await outsider.commit_sync({place: 9})


async def test_a_group_of_kip_848_has_its_pattern_evaluated_by_the_coordinator(bootstrap: str) -> None:
    """Both patterns mean something else, or nothing, to Python."""
    prefix = unique("pattern")
    async with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        for name in (f"{prefix}-a", f"{prefix}-b", f"{prefix}-1"):
            await admin.create_topics(NewTopic(name, 1, 1))
            await producer.send(name, b"value")
    options = ConsumerOptions(bootstrap_servers=bootstrap, group_protocol="consumer", auto_offset_reset="earliest")
    async with Consumer(pattern=f"{prefix}-[[:alpha:]]", group_id=prefix, client_rack="here", **options) as member:
        while {each.topic for each in member.assignment()} != {f"{prefix}-a", f"{prefix}-b"}:
            await member.poll(10_000)
    async with Consumer(pattern=f"{prefix}-(?=a)a", group_id=f"{prefix}-2", **options) as member:
        with pytest.raises(ConfigError, match="INVALID_REGULAR_EXPRESSION"):
            await member.poll(10_000)


async def test_a_pattern_reads_the_topics_it_matches_and_those_that_come_later(bootstrap: str) -> None:
    prefix = unique("pattern")

    async def put(name: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(NewTopic(name, 1, 1))
        async with Producer(bootstrap) as producer:
            await producer.send(name, name.encode())

    for name in (f"{prefix}-a", f"{prefix}-b", f"not-{prefix}-c"):
        await put(name)
    options = ConsumerOptions(
        bootstrap_servers=bootstrap,
        pattern=f"{prefix}-.",
        auto_offset_reset="earliest",
        metadata_max_age_ms=200,
        heartbeat_interval_ms=100,
    )
    async with Consumer(**options) as alone, Consumer(group_id=unique("group"), **options) as member:
        for consumer in (alone, member):
            found: list[bytes | None] = []
            while len(found) < 2:
                found += values(await consumer.poll(10_000))
            assert sorted(found, key=str) == [f"{prefix}-a".encode(), f"{prefix}-b".encode()]
        await put(f"{prefix}-z")
        later: list[bytes | None] = []
        while f"{prefix}-z".encode() not in later:
            later += values(await member.poll(10_000))
        assert {each.topic for each in member.assignment()} == {f"{prefix}-{letter}" for letter in "abz"}


async def test_positions_can_be_chosen_paused_and_looked_up_by_time(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Producer(bootstrap) as producer:
        for number in range(10):
            await producer.send_soon(topic, b"%d" % number, partition=number % 2, timestamp_ms=1000 * (number + 1))
    async with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        assert await consumer.beginning_offsets([first]) == {first: 0}
        assert await consumer.end_offsets([first, second]) == {first: 5, second: 5}
        found = await consumer.offsets_for_times({first: 4500, second: 11_000})
        assert (found[first], found[second].offset) == ((2, 5000), -1)
        consumer.pause(second)
        consumer.seek(first, 3)
        assert values(await consumer.poll(20_000)) == [b"6", b"8"]
        consumer.resume(second)
        await consumer.seek_to_beginning(second)
        assert values(await consumer.poll(20_000, 2)) == [b"1", b"3"]
        assert await consumer.position(second) == 2
        await consumer.seek_to_end(second)
        assert await consumer.poll(0) == []
        assert await consumer.position(second) == 5


async def test_an_offset_out_of_range_is_reset_or_raised_as_the_setting_says(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap) as producer:
        await producer.send(topic, b"only")
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="error") as consumer:
        consumer.assign([place])
        with pytest.raises(NoOffsetForPartition):
            await consumer.poll(20_000)
        consumer.seek(place, 99)
        with pytest.raises(NoOffsetForPartition):
            await consumer.poll(20_000)
        consumer.seek(place, 0)
        assert values(await consumer.poll(20_000)) == [b"only"]
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        consumer.seek(place, 99)
        assert values(await consumer.poll(20_000)) == [b"only"]


async def test_small_fetches_bring_everything_however_the_polls_are_cut(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, 3)
    async with Producer(bootstrap, batch_size=200) as producer:
        for number in range(300):
            await producer.send_soon(topic, b"%d" % number, partition=number % 3)
    async with Consumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=700
    ) as consumer:
        seen: list[Record] = []
        for limit in (1, 2, 3, 5, 50, *[7] * 100):
            if len(seen) < 300:
                records = await consumer.poll(20_000, limit)
                assert 0 < len(records) <= limit
                seen += records
    for index in range(3):
        assert [int(record.value or b"") for record in seen if record.partition == index] == list(range(index, 300, 3))


async def test_admin_lists_what_there_is(bootstrap: str) -> None:
    topic = await new_topic(bootstrap, 2, retention_ms="5000")
    async with Admin(bootstrap) as admin:
        [description] = await admin.describe_topics(topic)
        cluster = await admin.describe_cluster()
        assert (description.partition_count, set(description.leaders)) == (2, {1})
        assert cluster.nodes[1] == (bootstrap.split(":")[0], int(bootstrap.split(":")[1]))
        assert (await admin.describe_configs(topic=topic))["retention.ms"] == "5000"
        with pytest.raises(ConfigError, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topics(topic)
        await admin.create_topics(topic, exist_ok=True)
        assert topic in await admin.list_topics()
        await admin.delete_topics(topic)
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            while True:  # Kafka lists it for a moment after it has answered
                await admin.describe_topics(topic)


async def test_what_is_not_open_says_how_to_open_it(bootstrap: str) -> None:
    producer, consumer = Producer(bootstrap), Consumer(bootstrap_servers=bootstrap)
    for work in (producer.send("t", b"x"), producer.flush(), consumer.poll()):
        with pytest.raises(InvalidState, match="async with"):
            await work
    async with producer, consumer:
        pass
    with pytest.raises(InvalidState, match="closed"):
        await producer.send("t", b"x")
