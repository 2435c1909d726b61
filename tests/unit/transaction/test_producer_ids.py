"""Producer ids come from blocks that are durable before their first id leaves."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.cluster.metadata_records import Registration
from oncelog.broker.coordinator.transaction.producer_ids import BLOCK_SIZE, ProducerIdManager
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError


class HeldMetadata:
    """A metadata log that knows only of producer ids; a crash leaves `durable_next`."""

    def __init__(self, next_producer_id: int = 0) -> None:
        self.next_producer_id = next_producer_id
        self.durable_next = next_producer_id
        self.writes: list[Completion[None]] = []
        self.flushes_by_itself = False
        self.refuses = False

    @property
    def state(self) -> "HeldMetadata":
        return self

    def write(self, records: list[Any]) -> Completion[None]:
        written: Completion[None] = Completion()
        if self.refuses:
            written.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
            return written
        (record,) = records
        self.next_producer_id = record.next_producer_id
        self.writes.append(written)
        if self.flushes_by_itself:
            self.flush()
        return written

    def flush(self) -> None:
        self.durable_next = self.next_producer_id
        writes, self.writes = self.writes, []
        for written in writes:
            written.complete(None)


def manager(metadata: HeldMetadata) -> ProducerIdManager:
    return ProducerIdManager(cast(MetadataLog, metadata), lambda: Registration(1, 5))


def test_no_id_is_returned_before_its_block_is_durable_and_all_waiters_share_one_block() -> None:
    metadata = HeldMetadata()
    ids = manager(metadata)
    asked = [ids.next_id() for _ in range(3)]
    assert not any(answer.done for answer in asked)
    assert len(metadata.writes) == 1
    metadata.flush()
    assert [answer.result() for answer in asked] == [0, 1, 2]
    assert ids.next_id().result() == 3


def test_a_block_of_a_thousand_is_used_up_before_the_next_is_fetched() -> None:
    metadata = HeldMetadata()
    metadata.flushes_by_itself = True
    ids = manager(metadata)
    given_out = [ids.next_id().result() for _ in range(2 * BLOCK_SIZE + 1)]
    assert given_out == list(range(2 * BLOCK_SIZE + 1))
    assert metadata.next_producer_id == 3 * BLOCK_SIZE


def test_a_block_that_cannot_be_logged_fails_its_waiters_and_the_next_try_may_succeed() -> None:
    metadata = HeldMetadata()
    ids = manager(metadata)
    metadata.refuses = True
    assert isinstance(ids.next_id().error, KafkaError)
    metadata.refuses = False
    answer = ids.next_id()
    metadata.flush()
    assert answer.result() == 0


def test_more_waiters_than_a_block_has_ids_are_served_from_the_next_block() -> None:
    metadata = HeldMetadata()
    ids = manager(metadata)
    asked = [ids.next_id() for _ in range(BLOCK_SIZE + 1)]
    metadata.flush()
    assert [answer.done for answer in asked] == [True] * BLOCK_SIZE + [False]
    metadata.flush()
    assert asked[-1].result() == BLOCK_SIZE


def test_a_waiter_that_asks_again_during_its_callback_is_not_forgotten() -> None:
    """The last id of a block goes to a caller that at once asks for another."""
    metadata = HeldMetadata()
    ids = manager(metadata)
    again: list[Completion[int]] = []
    asked = [ids.next_id() for _ in range(BLOCK_SIZE + 1)]
    asked[BLOCK_SIZE - 1].then(lambda _: again.append(ids.next_id()))
    metadata.flush()
    assert len(metadata.writes) == 1
    metadata.flush()
    assert [asked[-1].result(), again[0].result()] == [BLOCK_SIZE, BLOCK_SIZE + 1]


@given(st.lists(st.sampled_from(["ask", "flush", "crash", "torn crash"]), max_size=40))
def test_an_id_is_never_given_twice_whatever_crashes(steps: list[str]) -> None:
    metadata = HeldMetadata()
    ids = manager(metadata)
    asked: list[Completion[int]] = []
    for step in steps:
        if step == "ask":
            asked.append(ids.next_id())
        elif step == "flush":
            metadata.flush()
        else:
            # What was appended and not flushed may have survived or not.
            metadata = HeldMetadata(metadata.durable_next if step == "crash" else metadata.next_producer_id)
            ids = manager(metadata)
    given_out = [answer.result() for answer in asked if answer.done]
    assert len(set(given_out)) == len(given_out)
