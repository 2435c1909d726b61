"""A past that is lost, with a backup that was restored: whoever was given something in it is fenced."""

import pytest

from oncelog.broker.cluster.metadata_records import next_series
from oncelog.protocol.errors import ErrorCode
from tests.fakes.broker import VirtualBroker
from tests.unit.transaction.harness import P0, P1, Coordinator, CountingIds


class IdsOfTwoPasts(CountingIds):
    """The first series was given out before the restore, the second one is given out since."""

    def is_from_before(self, producer_id: int) -> bool:
        return self.next >= next_series(0) > producer_id >= 0

    def restore(self) -> None:
        self.skip_to(next_series(self.next))


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_of_the_lost_past_can_neither_go_on_nor_end_anything_until_it_is_given_a_new_id(
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
    assert (pair.producer_id < next_series(0), new.producer_id, new.producer_epoch) == (True, next_series(0), 0)
    again = coordinator.init().pair
    assert (again.producer_id, again.producer_epoch) == (new.producer_id, 1)


def test_an_idempotent_producer_of_today_is_nobody_from_before() -> None:
    broker = VirtualBroker()
    ids = broker.broker.transactions._producer_ids
    broker.broker.metadata.register(1, broker.broker.entropy.uuid(), may_be_older=True)
    broker.time.settle()
    given = ids.next_id()
    broker.time.settle()
    assert given.result() == next_series(0)
    assert not ids.is_from_before(given.result())
    assert not ids.is_from_before(-1)
    assert ids.is_from_before(0)


def test_a_start_over_a_lost_past_raises_leader_epochs_by_more_than_anybody_loses() -> None:
    broker = VirtualBroker()
    before = broker.broker.metadata.state.epochs_of_starts
    broker.broker.metadata.register(1, broker.broker.entropy.uuid(), may_be_older=True)
    broker.time.settle()
    assert broker.broker.metadata.state.epochs_of_starts == before + 1_000
    assert broker.killed().broker.metadata.state.epochs_of_starts > before + 1_000
