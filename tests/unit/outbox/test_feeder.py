"""How rows become records: which partition, which batch, which time; what is refused, and what only waits."""

from collections.abc import Sequence

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.outbox.feeder import Feeder
from oncelog.broker.storage.shared.tables import LARGEST_BYTES, AppendRound, OutboxRow, RefuseRows
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.partitioning import partition_for_key
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import Record, decode_records
from tests.fakes.logs import read_records
from tests.fakes.tables_broker import TablesBroker

_AT_MS = 1_600_000_000_000
_POLL_MS = 250


class World:
    """A broker whose statements take no time, and an application that commits rows."""

    def __init__(self, look_rows: int = 1_000) -> None:
        self.virtual = TablesBroker()
        self.create("topic", 4)
        broker = self.virtual.broker
        self.feeder = Feeder(
            self.virtual.store, broker.topics, broker.metrics, broker.clock, broker.scheduler, look_rows
        )
        self.feeder.start()
        self.virtual.time.settle()
        self._next_id = 1

    def create(self, name: str, partition_count: int, **config: str) -> None:
        wanted = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
        wanted.configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()
        ]
        self.virtual.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)

    def row(
        self,
        value: bytes | None = b"v",
        key: bytes | None = b"k",
        *,
        topic: str = "topic",
        partition: int | None = None,
        headers: str | None = None,
        at_ms: int = _AT_MS,
        size_bytes: int | None = None,
    ) -> OutboxRow:
        row_id, self._next_id = self._next_id, self._next_id + 1
        size = len(value or b"") if size_bytes is None else size_bytes
        return OutboxRow(row_id, topic, partition, key, value, headers, at_ms, size)

    def commit(self, *rows: OutboxRow, is_told: bool = True) -> None:
        self.virtual.database.produce(rows)
        if is_told:
            self.virtual.store.outbox.notify()
        self.virtual.time.settle()

    def batches(self, partition: int = 0, topic: str = "topic") -> list[list[Record]]:
        """The batches that readers get."""
        log = self.virtual.broker.topics.partition(topic, partition)
        batches: list[list[Record]] = []
        offset = 0
        while offset < log.high_watermark:
            for header, batch in iter_batches(read_records(log, offset, 2**30, FetchIsolation.HIGH_WATERMARK).records):
                batches.append(decode_records(batch))
                offset = header.next_offset
        return batches

    def values(self, partition: int = 0, topic: str = "topic") -> list[bytes | None]:
        return [record.value for batch in self.batches(partition, topic) for record in batch]

    @property
    def waiting(self) -> list[int]:
        return sorted(self.virtual.database.outbox)

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.virtual.database.refused_rows.values()]


def test_rows_of_a_key_are_in_the_partition_of_the_key_and_in_one_batch() -> None:
    """Records have the time at which they were produced, and headers."""
    world = World()
    place = partition_for_key(b"k", 4)
    world.commit(world.row(b"1"), world.row(b"2", headers='[["a", "b"], ["c", null]]'), world.row(None))
    ((one, two, three),) = world.batches(place)
    assert (one.key, one.value, one.headers, one.timestamp) == (b"k", b"1", (), _AT_MS)
    assert (two.value, two.headers, three.value) == (b"2", (("a", b"b"), ("c", None)), None)
    assert world.waiting == []


def test_a_partition_that_is_named_wins_over_the_key() -> None:
    world = World()
    other = (partition_for_key(b"k", 4) + 1) % 4
    world.commit(world.row(b"1", partition=other))
    assert world.values(other) == [b"1"]


def test_rows_without_a_key_stay_together_and_go_round_from_look_to_look() -> None:
    world = World()
    for number in range(4):
        world.commit(*(world.row(b"%d" % number, key=None) for _ in range(2)))
    assert sorted(tuple(world.values(partition)) for partition in range(4)) == [(b"%d" % n,) * 2 for n in range(4)]


def test_a_database_whose_clock_is_ahead_gives_no_record_a_time_in_the_future() -> None:
    world = World()
    world.commit(world.row(partition=0, at_ms=2**45))
    ((record,),) = world.batches()
    assert record.timestamp == world.virtual.time.wall_ms()


def test_batches_are_no_larger_than_the_topic_takes() -> None:
    world = World()
    world.create("small", 1, max_message_bytes="1000")
    values = [b"%d" % number * 300 for number in range(5)]
    world.commit(*(world.row(value, topic="small") for value in values))
    assert world.values(topic="small") == values
    assert [len(batch) for batch in world.batches(topic="small")] == [2, 2, 1]


def test_what_no_log_takes_is_refused_with_its_reason_and_holds_up_nothing() -> None:
    world = World()
    world.create("small", 1, max_message_bytes="1000")
    world.create("compacted", 1, cleanup_policy="compact")
    world.commit(
        world.row(topic="missing"),
        world.row(topic="__consumer_offsets", partition=0),
        world.row(partition=4),
        world.row(None, None, size_bytes=LARGEST_BYTES + 1),
        world.row(b"x" * 1_000, topic="small"),
        world.row(key=None, topic="compacted"),
        world.row(headers='["x"]'),
        world.row(b"good", partition=0),
    )
    assert world.values() == [b"good"]
    assert world.waiting == []
    assert world.reasons[:4] == [
        "there is no topic missing",
        "__consumer_offsets is an internal topic",
        "topic has 4 partitions, and no 4",
        f"it has {LARGEST_BYTES + 1:,} bytes, and at most {LARGEST_BYTES:,} are taken",
    ]
    assert sorted(reason.split(",")[0] for reason in world.reasons[4:]) == [
        "compacted is compacted",
        "its headers are not pairs of texts",
        "the batch has 1071 bytes",
    ]


def test_rows_for_a_damaged_partition_are_refused_with_what_is_wrong() -> None:
    world = World()
    world.virtual.broker.topics.partition("topic", 0).take_offline("a chunk is gone")
    world.commit(world.row(partition=0), world.row(b"other", partition=1))
    assert world.reasons == ["topic-0 is offline: a chunk is gone"]
    assert world.values(1) == [b"other"]


def test_without_space_rows_wait_and_are_taken_in_their_order_once_there_is_some() -> None:
    """Nothing is refused that can be written later."""
    world = World()
    world.virtual.tables.refused = (AppendRound, RefuseRows)
    world.commit(world.row(b"1", partition=0))
    world.commit(world.row(b"2", partition=0), world.row(topic="missing"))
    world.virtual.time.advance(5_000)
    assert (world.waiting, world.values()) == ([1, 2, 3], [])
    world.virtual.tables.refused = ()
    world.virtual.time.advance(5_000)
    assert (world.waiting, world.values()) == ([], [b"1", b"2"])
    assert world.reasons == ["there is no topic missing"]


def test_rows_without_a_notification_are_found_by_looking() -> None:
    world = World()
    world.commit(world.row(b"1", partition=0), is_told=False)
    assert world.values() == []
    world.virtual.time.advance(_POLL_MS)
    assert world.values() == [b"1"]


def test_a_transaction_larger_than_a_look_is_taken_at_once_in_several_rounds_and_in_order() -> None:
    world = World(look_rows=3)
    world.commit(*(world.row(b"%d" % number, partition=0) for number in range(10)))
    assert world.values() == [b"%d" % number for number in range(10)]
    assert [len(batch) for batch in world.batches()] == [3, 3, 3, 1]


def test_what_a_look_takes_can_be_read_in_one_step() -> None:
    """All partitions of it, or none: the round is whole."""
    world = World()
    seen: list[Sequence[int]] = []
    logs = [world.virtual.broker.topics.partition("topic", partition) for partition in range(4)]
    world.virtual.database.produce([world.row(partition=partition) for partition in range(4)])
    world.virtual.store.outbox.notify()
    while world.virtual.time.turn():
        seen.append([log.high_watermark for log in logs])
    assert {tuple(each) for each in seen} == {(0, 0, 0, 0), (1, 1, 1, 1)}


def test_who_stops_takes_nothing_more_and_what_waits_is_the_next_brokers() -> None:
    world = World()
    world.feeder.stop()
    world.commit(world.row(b"1", partition=0))
    world.virtual.time.advance(10 * _POLL_MS)
    assert (world.waiting, world.values()) == ([1], [])


@pytest.mark.parametrize("is_told", [False, True])
def test_it_says_how_many_it_took_and_refused_and_how_long_the_oldest_waits(is_told: bool) -> None:
    world = World()
    world.commit(world.row(), world.row(), world.row(topic="missing"), is_told=is_told)
    world.virtual.time.advance(_POLL_MS)
    figures = world.virtual.store.figures()
    assert (figures["outbox_rows"], figures["outbox_refused_rows"], figures["outbox_wait_seconds"]) == (2, 1, 0)
    world.virtual.tables.refused = (AppendRound,)
    world.commit(world.row(partition=0))
    world.virtual.time.advance(3_000)
    assert world.virtual.store.figures()["outbox_wait_seconds"] == 3


def test_a_row_at_which_each_look_fails_is_found_moved_aside_and_holds_up_no_other() -> None:
    """The listener gets it with its reason; the others are records, in their order."""
    world = World()
    said: list[tuple[int, str]] = []

    class Listener:
        def on_failed(self, error: str) -> None: ...
        def on_passed(self) -> None: ...
        def on_left(self, row_id: int, error: str) -> None: ...
        def on_unreadable(self, row_id: int, error: str) -> None:
            said.append((row_id, error))

    world.feeder._listener = Listener()
    rows = [world.row(b"%d" % number, partition=0) for number in range(5)]
    world.virtual.database.unreadable = {rows[1].id, rows[3].id}
    world.commit(*rows)
    assert world.values() == [b"0", b"2", b"4"]
    assert world.waiting == []
    assert world.reasons == ["it cannot be read: one of them cannot be read"] * 2
    assert said == [(rows[1].id, "one of them cannot be read"), (rows[3].id, "one of them cannot be read")]
    assert world.virtual.store.figures()["outbox_failed_looks"] == 4


def test_what_fails_after_a_stop_is_no_failed_look() -> None:
    world = World()
    failures: list[str] = []

    class Listener:
        def on_failed(self, error: str) -> None:
            failures.append(error)

        def on_passed(self) -> None: ...
        def on_left(self, row_id: int, error: str) -> None: ...
        def on_unreadable(self, row_id: int, error: str) -> None:
            world.feeder.stop()

    world.feeder._listener = Listener()
    row = world.row(partition=0)
    world.virtual.database.unreadable = {row.id}
    world.virtual.tables.refused = (RefuseRows,)
    world.commit(row)
    world.virtual.time.advance(10 * _POLL_MS)
    assert (world.waiting, failures) == ([row.id], [])


def test_headers_that_no_record_of_the_topic_could_have_are_refused_as_they_came() -> None:
    """Making millions of pairs of them would hold the loop for seconds."""
    world = World()
    world.create("small", 1, max_message_bytes="1000")
    pairs = ", ".join(['["", null]'] * 1_000)
    world.commit(world.row(topic="small", headers=f"[{pairs}]"), world.row(b"good", topic="small"))
    assert world.values(topic="small") == [b"good"]
    assert world.reasons == ["it has 1 bytes, and small takes 1,000 (max.message.bytes)"]


def test_a_row_that_can_be_neither_taken_nor_moved_is_left_and_holds_up_no_other() -> None:
    """The listener gets it with the reason; it is tried again every ten minutes."""
    world = World()
    left: list[tuple[int, str]] = []

    class Listener:
        def on_failed(self, error: str) -> None: ...
        def on_passed(self) -> None: ...
        def on_unreadable(self, row_id: int, error: str) -> None: ...
        def on_left(self, row_id: int, error: str) -> None:
            left.append((row_id, error))

    world.feeder._listener = Listener()
    database = world.virtual.database
    unreadable, untaken = world.row(partition=0), world.row(topic="missing")
    database.unreadable, database.unmovable = {unreadable.id}, {unreadable.id, untaken.id}
    world.commit(world.row(b"0", partition=0), unreadable, untaken, world.row(b"1", partition=0))
    world.commit(world.row(topic="missing"), world.row(b"2", partition=0))
    assert world.values() == [b"0", b"1", b"2"]
    assert (world.waiting, len(world.reasons)) == ([unreadable.id, untaken.id], 1)
    why = "it violates a check constraint"
    assert left == [(unreadable.id, why), (untaken.id, why)]
    figures = world.virtual.store.figures()
    assert (figures["outbox_left_rows"], figures["outbox_refused_rows"]) == (2, 1)
    database.unreadable, database.unmovable = set(), set()
    world.virtual.time.advance(601_000)
    assert (world.waiting, len(world.reasons)) == ([], 2)


def test_a_move_that_fails_for_want_of_something_is_reported_and_tried_again() -> None:
    world = World()
    failures: list[str] = []

    class Listener:
        def on_failed(self, error: str) -> None:
            failures.append(error)

        def on_passed(self) -> None: ...
        def on_unreadable(self, row_id: int, error: str) -> None: ...
        def on_left(self, row_id: int, error: str) -> None: ...

    world.feeder._listener = Listener()
    world.virtual.tables.refused = (RefuseRows,)
    world.commit(world.row(topic="missing"))
    assert failures and world.virtual.store.figures()["outbox_failed_looks"] == len(failures)
    world.virtual.tables.refused = ()
    world.virtual.time.advance(2_000)
    assert (world.waiting, world.reasons) == ([], ["there is no topic missing"])
