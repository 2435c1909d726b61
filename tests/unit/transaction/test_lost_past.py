"""A past that is lost, with a backup that was restored: each producer that got an identity in it is fenced."""

from uuid import UUID

import pytest

from oncelog.broker.cluster.metadata_log import ClusterState, Topic, topic_records
from oncelog.broker.cluster.metadata_records import EPOCHS_A_START, Leader, NewPartitions, next_series
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime
from tests.unit.transaction.harness import P0, P1, Coordinator, CountingIds

_SECOND = next_series(0, WallMs(0))
"""The first id of the series after a restore."""


class IdsOfTwoPasts(CountingIds):
    """The first series was given out before the restore, the second one is given out since."""

    def is_from_before(self, producer_id: int) -> bool:
        return self.next >= _SECOND > producer_id >= 0

    def restore(self) -> None:
        self.skip_to(next_series(self.next, WallMs(0)))


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_of_the_lost_past_can_neither_continue_nor_end_anything_until_it_is_given_a_new_id(
    version: int,
) -> None:
    """Its next end would be taken for a retry of an earlier one, whose records are gone."""
    ids = IdsOfTwoPasts()
    coordinator = Coordinator(level=version, ids=ids)
    coordinator.start()
    pair = coordinator.begun(P0, version=version)
    ids.restore()
    for asked in (coordinator.add(pair, P1, version=version), coordinator.end(pair, commit=True, version=version)):
        assert asked.error is ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(pair, P0) is ErrorCode.PRODUCER_FENCED


def test_its_successor_has_an_id_that_was_never_given_out() -> None:
    ids = IdsOfTwoPasts()
    coordinator = Coordinator(ids=ids)
    coordinator.start()
    pair = coordinator.init().pair
    ids.restore()
    new = coordinator.init().pair
    assert (pair.producer_id < _SECOND, new.producer_id, new.producer_epoch) == (True, _SECOND, 0)
    again = coordinator.init().pair
    assert (again.producer_id, again.producer_epoch) == (new.producer_id, 1)


def test_an_idempotent_producer_of_today_is_not_taken_for_an_earlier_one() -> None:
    broker = VirtualBroker()
    ids = broker.broker.transactions._producer_ids
    restored(broker)
    given = ids.next_id()
    broker.time.settle()
    assert given.result() == next_series(0, broker.time.wall_ms())
    assert not ids.is_from_before(given.result())
    assert not ids.is_from_before(-1)
    assert ids.is_from_before(0)


def test_a_start_over_a_lost_past_raises_leader_epochs_by_more_than_anybody_loses() -> None:
    """The clock does not matter; the starts after it know it from the log, and a node from a snapshot."""
    broker = VirtualBroker(time=VirtualTime(0))
    before = broker.broker.metadata.state.epochs_of_starts
    restored(broker)
    assert broker.broker.metadata.state.epochs_of_starts == before + EPOCHS_A_START + 1_000
    next_one = broker.killed().broker.metadata.state
    assert next_one.epochs_of_starts == before + 2 * EPOCHS_A_START + 1_000
    topic_id = UUID(int=1)
    for record in topic_records(Topic("t", topic_id, 0, {}), NewPartitions(topic_id, range(1), Leader(1, 7))):
        next_one.replay(record, 0)
    copied = ClusterState()
    for record in next_one.records():
        copied.replay(record, 0)
    ((_, origin),) = copied.topics["t"].epoch_origins
    assert origin + copied.epochs_of_starts == 7


def test_a_backup_that_is_restored_twice_gives_out_nothing_that_was_given_out_after_the_first_time() -> None:
    """Each time all that is known is the backup; in between the broker has started as often as it can in a minute."""
    time = VirtualTime()
    first = VirtualBroker(time=time)
    restored(first)
    for _ in range(20):
        first = first.killed()
    time.advance(60_000)
    second = VirtualBroker(time=time)
    restored(second)
    states = [each.broker.metadata.state for each in (first, second)]
    assert states[0].epochs_of_starts < states[1].epochs_of_starts
    assert states[0].next_producer_id < states[1].next_producer_id
    assert second.broker.transactions._producer_ids.is_from_before(states[0].next_producer_id)


def restored(broker: VirtualBroker) -> None:
    broker.broker.metadata.register(1, broker.broker.entropy.uuid(), may_be_older=True)
    broker.time.settle()
