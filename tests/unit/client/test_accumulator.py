"""Order and numbering across retries, against a partition that judges sequences as a broker does."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.producing.accumulator import Accumulator, PartitionQueue
from oncelog.client.producing.batch import Batch, Delivery, ProducerIdentity
from oncelog.client.values.errors import DeliveryTimeout, KafkaError, OutOfOrderSequence
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.records.batch import check_crc, read_header
from oncelog.protocol.records.record import decode_records

PLACE = TopicPartition("topic", 0)
FIRST = ProducerIdentity(7, 0)


class ModelPartition:
    """Five remembered batches a producer; duplicates answered, gaps refused; any sequence taken from unknown
    producers.
    """

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self._seen: dict[int, list[tuple[int, int, int]]] = {}

    def append(self, data: bytes) -> int | None:
        """The base offset, or None for OUT_OF_ORDER_SEQUENCE_NUMBER."""
        view = memoryview(data)
        header = read_header(view)
        assert check_crc(view)
        seen = self._seen.setdefault(header.producer_id, [])
        for first, last, offset in seen:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return offset
        if seen and header.base_sequence != seen[-1][1] + 1:
            return None
        offset = len(self.values)
        self.values += [record.value for record in decode_records(view)]
        self._seen[header.producer_id] = [*seen, (header.base_sequence, header.last_sequence, offset)][-5:]
        return offset


class Wire:
    """Sends what a queue gives, up to five at once; any request or answer may be lost, from a seed."""

    def __init__(self, source: random.Random, failing: float) -> None:
        self.queue = PartitionQueue(PLACE)
        self.partition = ModelPartition()
        self.identity = FIRST
        self._source = source
        self._failing = failing
        self._sent: list[Batch] = []

    def step(self) -> None:
        """Send, or hear an answer."""
        if self._source.random() < 0.5:
            self.send()
        else:
            self.hear()

    def send(self) -> None:
        self.queue.close_batches()
        if len(self._sent) < 5:
            batch = self.queue.take(self.identity, 0.0, compression="none", transactional=False)
            if batch is not None:
                self._sent.append(batch)

    def hear(self) -> None:
        if not self._sent:
            return
        if self._source.random() < self._failing:
            self._lose_connection()
            return
        batch = self._sent.pop(0)
        if self._source.random() < self._failing:
            # Refused for now, not written; the ones behind it are on their way.
            self.queue.on_retriable(batch, 0.0)
            return
        self._answer(batch, self.partition.append(batch.encoded or b""))

    def _lose_connection(self) -> None:
        """Some of what was sent arrived, always the first ones; none of it is answered."""
        arrived = self._source.randint(0, len(self._sent))
        for batch in self._sent[:arrived]:
            self.partition.append(batch.encoded or b"")
        lost, self._sent = self._sent, []
        # Answers arrive in any order: it must not matter.
        self._source.shuffle(lost)
        for batch in lost:
            self.queue.on_retriable(batch, 0.0)

    def _answer(self, batch: Batch, offset: int | None) -> None:
        if offset is not None:
            self.queue.on_written(batch, offset, -1)
        elif not self.queue.on_gap(batch, 0.0):
            self.queue.on_failed(batch, OutOfOrderSequence())

    def fail_one_for_good(self) -> Batch | None:
        """A batch is refused and not written, as one that is too large is."""
        if not self._sent:
            return None
        batch = self._sent.pop(0)
        self.queue.on_failed(batch, KafkaError("refused"))
        self.identity = ProducerIdentity(self.identity.producer_id + 1, 0)
        return batch

    def finish(self) -> None:
        for _ in range(10_000):
            if not list(self.queue.outstanding()):
                return
            self.send()
            self.hear()
        raise AssertionError("the queue stands still")


def add(queue: PartitionQueue, number: int) -> tuple[Batch, int]:
    batch, _ = queue.append(None, b"%d" % number, (), 0, 100, 0.0)
    return batch, batch.record_count - 1


def known_queue() -> PartitionQueue:
    """A queue whose partition has written a batch of the first identity."""
    queue = PartitionQueue(PLACE)
    add(queue, -1)
    first = queue.take(FIRST, 0.0, compression="none", transactional=False)
    assert first is not None
    queue.on_written(first, 0, -1)
    return queue


@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 0.6))
def test_every_record_is_written_once_and_in_order_whatever_is_lost(seed: int, count: int, failing: float) -> None:
    source = random.Random(seed)
    wire = Wire(source, failing)
    deliveries = []
    for number in range(count):
        deliveries.append(Delivery(*add(wire.queue, number)))
        if source.random() < 0.8:
            wire.step()
    wire.finish()
    assert wire.partition.values == [b"%d" % number for number in range(count)]
    assert [each.result().offset for each in deliveries] == list(range(count))


@given(st.integers(0, 2**32), st.integers(10, 60), st.floats(0, 0.4))
def test_after_a_batch_is_refused_the_others_are_still_written_once_and_in_order(
    seed: int, count: int, failing: float
) -> None:
    source = random.Random(seed)
    wire = Wire(source, failing)
    placed: dict[int, Batch] = {}
    refused: set[int] = set()
    for number in range(count):
        placed[number], _ = add(wire.queue, number)
        if source.random() < 0.8:
            wire.step()
        if number % 20 == 15:
            batch = wire.fail_one_for_good()
            refused |= {each for each, where in placed.items() if where is batch}
    wire.finish()
    # What was refused may have arrived before, when its first connection was lost: then it is there, in its place.
    expected = [b"%d" % number for number in range(count)]
    missing = [number for number in range(count) if expected[number] not in wire.partition.values]
    assert set(missing) <= refused
    assert wire.partition.values == [each for each in expected if int(each) not in missing]


def test_nothing_new_is_sent_while_failed_batches_are_sent_again() -> None:
    queue = known_queue()
    sent = []
    for number in range(3):
        add(queue, number)
        queue.close_batches()
        sent.append(queue.take(FIRST, 0.0, compression="none", transactional=False))
    add(queue, 3)
    first, second, third = (each for each in sent if each is not None)
    queue.on_retriable(third, 1.0)
    queue.on_retriable(second, 1.0)
    assert queue.take(FIRST, 2.0, compression="none", transactional=False) is None
    queue.on_written(first, 0, -1)
    assert queue.take(FIRST, 0.5, compression="none", transactional=False) is None
    assert queue.take(FIRST, 1.0, compression="none", transactional=False) is second
    assert queue.take(FIRST, 1.0, compression="none", transactional=False) is None
    queue.on_written(second, 1, -1)
    assert queue.take(FIRST, 1.0, compression="none", transactional=False) is third
    assert queue.take(FIRST, 1.0, compression="none", transactional=False) is None
    queue.on_written(third, 2, -1)
    assert queue.take(FIRST, 1.0, compression="none", transactional=False) is not None


def test_the_first_batch_of_a_producer_id_goes_alone_and_the_others_together() -> None:
    queue = PartitionQueue(PLACE)
    for identity in (FIRST, ProducerIdentity(8, 0)):
        for number in range(3):
            add(queue, number)
            queue.close_batches()
        first = queue.take(identity, 0.0, compression="none", transactional=False)
        assert first is not None
        assert queue.ready_at_s(0.0, 100) is None
        assert queue.take(identity, 0.0, compression="none", transactional=False) is None
        queue.on_written(first, 0, -1)
        assert queue.ready_at_s(0.0, 100) == 0.0
        both = [queue.take(identity, 0.0, compression="none", transactional=False) for _ in range(2)]
        for batch in both:
            assert batch is not None
            queue.on_written(batch, 0, -1)


def test_a_retry_sends_the_same_bytes() -> None:
    queue = PartitionQueue(PLACE)
    add(queue, 0)
    batch = queue.take(FIRST, 0.0, compression="gzip", transactional=True)
    assert batch is not None
    before = batch.encoded
    queue.on_retriable(batch, 0.0)
    again = queue.take(ProducerIdentity(8, 0), 0.0, compression="none", transactional=False)
    assert again is batch
    assert again.encoded is before


def test_what_waits_longer_than_the_delivery_timeout_is_taken_out_and_what_is_in_flight_is_not() -> None:
    queue = PartitionQueue(PLACE)
    add(queue, 0)
    queue.close_batches()
    in_flight = queue.take(FIRST, 0.0, compression="none", transactional=False)
    waiting, _ = add(queue, 1)
    assert queue.expire(0.0) == [waiting]
    assert in_flight is not None
    queue.on_retriable(in_flight, 0.0)
    assert queue.expire(0.0) == [in_flight]
    assert queue.needs_new_identity


def test_a_batch_is_ready_when_it_is_full_or_has_lingered() -> None:
    queue = PartitionQueue(PLACE)
    assert queue.ready_at_s(5.0, 100) is None
    queue.append(None, b"x", (), 0, 100, 10.0)
    assert queue.ready_at_s(5.0, 100) == 15.0
    queue.append(None, b"x" * 60, (), 0, 100, 11.0)
    assert queue.ready_at_s(5.0, 100) == 0.0


def test_a_record_larger_than_the_batch_size_gets_a_batch_of_its_own() -> None:
    queue = PartitionQueue(PLACE)
    small, _ = queue.append(None, b"x", (), 0, 100, 0.0)
    large, begun = queue.append(None, b"x" * 1000, (), 0, 100, 0.0)
    after, _ = queue.append(None, b"x", (), 0, 100, 0.0)
    assert begun
    assert len({id(small), id(large), id(after)}) == 3


def test_sequences_wrap_to_0_behind_the_highest_number() -> None:
    queue = PartitionQueue(PLACE)
    add(queue, 0)
    batch = queue.take(FIRST, 0.0, compression="none", transactional=False)
    assert batch is not None
    queue.on_written(batch, 0, -1)
    queue._next_sequence = 2**31 - 1
    add(queue, 1)
    queue.close_batches()
    last = queue.take(FIRST, 0.0, compression="none", transactional=False)
    add(queue, 2)
    first = queue.take(FIRST, 0.0, compression="none", transactional=False)
    assert last is not None
    assert first is not None
    assert (last.sequence, first.sequence) == (2**31 - 1, 0)


def test_room_is_held_until_the_batch_has_its_outcome() -> None:
    freed = []
    accumulator = Accumulator(batch_size=100, linger_s=0, buffer_memory_bytes=100, on_room=lambda: freed.append(True))
    batch, _ = accumulator.append(PLACE, None, b"x", (), 0, 0.0)
    assert not accumulator.has_room
    batch.fail(DeliveryTimeout())
    assert accumulator.has_room
    assert freed == [True]


async def test_a_delivery_raises_the_error_of_its_batch_in_every_waiter() -> None:
    queue = PartitionQueue(PLACE)
    delivery = Delivery(*add(queue, 0))
    told: list[bool] = []
    delivery.add_done_callback(lambda each: told.append(each.done()))
    queue.waiting[0].fail(DeliveryTimeout("too late"))
    delivery.add_done_callback(lambda each: told.append(each.done()))
    await asyncio.sleep(0)
    assert told == [True, True]
    for _ in range(2):
        with pytest.raises(DeliveryTimeout):
            await delivery


@given(st.integers(0, 2**32), st.integers(10, 80))
def test_what_is_being_sent_changes_no_more_whatever_becomes_of_its_batch(seed: int, count: int) -> None:
    """CVE-2026-35554: a buffer whose batch had expired was used again while it was being sent, and records came to
    another topic."""
    source = random.Random(seed)
    accumulator = Accumulator(batch_size=200, linger_s=0.0, buffer_memory_bytes=1 << 20)
    queues = [accumulator.queue(TopicPartition(name, 0)) for name in ("one", "two")]
    on_the_wire: list[tuple[str, bytes, bytes]] = []
    sent: list[tuple[PartitionQueue, Batch]] = []
    for number in range(count):
        queue = source.choice(queues)
        topic = queue.topic_partition.topic
        queue.append(None, f"{topic} {number}".encode(), (), 0, 200, float(number))
        if source.random() < 0.5:
            queue.close_batches()
            batch = queue.take(FIRST, float(number), compression="none", transactional=False)
            if batch is not None and batch.encoded is not None:
                on_the_wire.append((topic, batch.encoded, bytes(bytearray(batch.encoded))))
                sent.append((queue, batch))
        if sent and source.random() < 0.3:
            queue, batch = sent.pop(source.randrange(len(sent)))
            if source.random() < 0.5:
                queue.on_retriable(batch, 0.0)
            else:
                queue.on_failed(batch, DeliveryTimeout("too late"))
        if source.random() < 0.1:
            for queue in queues:
                queue.expire(float(number))
    for topic, data, copy in on_the_wire:
        assert isinstance(data, bytes) and data == copy
        assert check_crc(memoryview(data))
        values = [record.value or b"" for record in decode_records(memoryview(data))]
        assert values and all(value.startswith(topic.encode()) for value in values)
