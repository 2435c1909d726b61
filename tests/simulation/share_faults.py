"""Faults to plant in share groups: each breaks one promise, and the simulation must notice.

Owns: the list. Each is a small change to one function of the broker, as a mistake in it would be.
"""

from typing import Any

import pytest

from oncelog.broker.coordinator.share import decisions
from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.shard import ShareShard
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.sharing import acknowledging
from oncelog.broker.sharing.in_flight import InFlight
from oncelog.broker.sharing.manager import SharePartitionManager
from oncelog.broker.sharing.partition import SharePartition
from oncelog.broker.sharing.partition_life import SharePartitionLife
from oncelog.broker.sharing.values import ARCHIVED, AVAILABLE, RELEASE
from oncelog.broker.turns.completion import Completion
from tests.simulation.log_faults import Plant


def answer_an_acknowledgement_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    acknowledge = SharePartitionLife.acknowledge

    def at_once(self: SharePartitionLife, member_id: str, batches: Any) -> Completion[None]:
        done = acknowledge(self, member_id, batches)
        return done if done.done else Completion.of(None)

    patch.setattr(SharePartitionLife, "acknowledge", at_once)


def keep_acknowledgements_in_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareCoordinator, "write", lambda *_: Completion.of(None))


def take_acknowledgements_from_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acknowledging, "_check_owner", lambda *_: None)


def let_locks_end_early(patch: pytest.MonkeyPatch) -> None:
    limits = SharePartitionLife._limits

    def shorter(self: SharePartitionLife) -> Any:
        found = limits(self)
        return found._replace(record_lock_duration_ms=found.record_lock_duration_ms // 2)

    patch.setattr(SharePartitionLife, "_limits", shorter)


def let_locks_last_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "next_expiry_ms", lambda _: None)


def archive_what_is_released(patch: pytest.MonkeyPatch) -> None:
    ended = acknowledging._ended

    def archived(run: Any, acknowledge_type: int, limits: Any) -> Any:
        after = ended(run, acknowledge_type, limits)
        return after._replace(state=ARCHIVED) if acknowledge_type == RELEASE else after

    patch.setattr(acknowledging, "_ended", archived)


def count_no_delivery_of_what_is_released(patch: pytest.MonkeyPatch) -> None:
    ended = acknowledging._ended

    def uncounted(run: Any, acknowledge_type: int, limits: Any) -> Any:
        after = ended(run, acknowledge_type, limits)
        return after._replace(delivery_count=after.delivery_count - 1) if after.state == AVAILABLE else after

    patch.setattr(acknowledging, "_ended", uncounted)


def hand_out_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartitionManager, "isolation", lambda *_: FetchIsolation.HIGH_WATERMARK)


def move_the_start_over_what_is_acquired(patch: pytest.MonkeyPatch) -> None:
    advance = InFlight.advance

    def too_far(self: InFlight) -> None:
        advance(self)
        if len(self.batches) > 1 and not self.available:
            self.move_start(self.batches[1].first_offset)

    patch.setattr(InFlight, "advance", too_far)


def replay_the_newest_record_alone(patch: pytest.MonkeyPatch) -> None:
    replay = ShareShard._replay_update

    def alone(self: ShareShard, update: Any, offset: int) -> None:
        share = self._shares.get(update.key)
        if share is not None:
            share.snapshot = share.snapshot._replace(state=share.snapshot.state._replace(batches=()))
        replay(self, update, offset)

    patch.setattr(ShareShard, "_replay_update", alone)


def leave_batches_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    record = decisions.snapshot_record

    def without(key: Any, snapshot: Any) -> Any:
        if snapshot is not None:
            snapshot = snapshot._replace(state=snapshot.state._replace(batches=()))
        return record(key, snapshot)

    patch.setattr(decisions, "snapshot_record", without)


def prune_what_the_last_snapshot_needs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareShard, "redundant_before", property(lambda self: self._next_offset))


PLANTS: tuple[Plant, ...] = (
    answer_an_acknowledgement_before_it_is_durable,
    keep_acknowledgements_in_memory,
    take_acknowledgements_from_anybody,
    let_locks_end_early,
    let_locks_last_for_ever,
    archive_what_is_released,
    count_no_delivery_of_what_is_released,
    hand_out_what_is_not_committed,
    move_the_start_over_what_is_acquired,
    replay_the_newest_record_alone,
    leave_batches_out_of_snapshots,
    prune_what_the_last_snapshot_needs,
)
