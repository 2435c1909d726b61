"""Faults to plant in the broker: each breaks one rule of transactions, and the simulation must notice.

Owns: the list. Those of the log and its compaction that a client of a whole broker would feel are used again here.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

import pytest

from oncelog.broker.cluster import metadata_log
from oncelog.broker.cluster.metadata_log import ClusterState, MetadataLog
from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.coordinator import runtime
from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.group.offsets import OffsetCoordinator
from oncelog.broker.coordinator.partition_markers import PartitionMarkers
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.coordinator.transaction import begin_decisions, coordinator, end_decisions
from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.transaction.marker_delivery import MarkerDelivery
from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife
from oncelog.broker.coordinator.transaction.timeouts import TransactionTimeouts
from oncelog.broker.fetching.fetch import Fetch
from oncelog.broker.fetching.session import FetchSession
from oncelog.broker.handlers import produce
from oncelog.broker.log import rounds
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.values import EndMarker
from oncelog.broker.security.authorizer import Asked, Authorizer
from oncelog.broker.storage.local import local_log
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.access_control_entry_record import AccessControlEntryRecord
from oncelog.protocol.generated.client_quota_record import ClientQuotaRecord
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from oncelog.protocol.records.batch import TRANSACTIONAL_MASK
from tests.simulation.compaction_faults import (
    drop_tombstones_at_once,
    map_aborted_keys,
    never_end_an_aborted_transaction,
)
from tests.simulation.log_faults import (
    Plant,
    answer_before_it_is_durable,
    forget_open_transactions,
    lose_the_transaction_index,
    skip_the_sync_of_the_log,
)


def drop_a_marker(patch: pytest.MonkeyPatch) -> None:
    append = PartitionMarkers.append_marker

    def forgetful(self: PartitionMarkers, topic: str, partition: int, marker: EndMarker) -> ErrorCode:
        if topic == "ledger" and partition == 1 and marker.producer_epoch % 3 == 2:
            return ErrorCode.NONE
        return append(self, topic, partition, marker)

    patch.setattr(PartitionMarkers, "append_marker", forgetful)


def turn_a_marker_round(patch: pytest.MonkeyPatch) -> None:
    append = PartitionMarkers.append_marker

    def confused(self: PartitionMarkers, topic: str, partition: int, marker: EndMarker) -> ErrorCode:
        if topic == "ledger" and partition == 1 and marker.producer_epoch % 3 == 2:
            marker = marker._replace(committed=not marker.committed)
        return append(self, topic, partition, marker)

    patch.setattr(PartitionMarkers, "append_marker", confused)


def complete_before_the_markers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MarkerDelivery, "deliver", lambda self, prepared, durable: self._on_delivered(prepared))


def show_a_round_partition_by_partition(patch: pytest.MonkeyPatch) -> None:
    """Each high watermark rises a millisecond after the one before it."""

    def one_by_one(self: Rounds, ends: Any, on_ended: Any, committed: Any) -> None:
        self._is_in_flight = False
        for delay_ms, end in enumerate(ends):
            self._scheduler.call_later(delay_ms, lambda end=end: rounds._advance([end]))
        if self._dirty and not self._is_scheduled:
            self._is_scheduled = True
            self.call_soon(self._run)

    patch.setattr(Rounds, "_on_committed", one_by_one)


def answer_a_waiting_fetch_in_the_middle_of_a_round(patch: pytest.MonkeyPatch) -> None:
    """A waiting fetch is answered at the first log that moves, not at the end of the turn."""

    on_moved = Fetch.on_moved

    def hasty(self: Fetch, partition: Any) -> None:
        on_moved(self, partition)
        self._on_turn_over()

    patch.setattr(Fetch, "on_moved", hasty)


def leave_prepared_transactions_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShardLife, "on_active", lambda self: None)


def answer_before_the_decision_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime, "_respond_when_durable", lambda life, response: Completion.of(response))


def let_transactions_live_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTimeouts, "watch", lambda self, opened, elapsed_ms=0: None)


def show_offsets_before_their_commit(patch: pytest.MonkeyPatch) -> None:
    replay = GroupShard._replay_offset
    patch.setattr(
        GroupShard, "_replay_offset", lambda self, change, offset, producer_id: replay(self, change, offset, -1)
    )


def keep_offsets_of_an_abort(patch: pytest.MonkeyPatch) -> None:
    end = GroupShard.replay_end_transaction_marker

    def always(self: GroupShard, marker: EndMarker, offset: int) -> None:
        end(self, marker._replace(committed=True), offset)

    patch.setattr(GroupShard, "replay_end_transaction_marker", always)


def drop_offsets_of_a_commit(patch: pytest.MonkeyPatch) -> None:
    end = GroupShard.replay_end_transaction_marker

    def never(self: GroupShard, marker: EndMarker, offset: int) -> None:
        end(self, marker._replace(committed=False), offset)

    patch.setattr(GroupShard, "replay_end_transaction_marker", never)


def append_a_retry_again(patch: pytest.MonkeyPatch) -> None:
    prepare = ProducerStateManager.prepare_append

    def twice(self: ProducerStateManager, *arguments: Any) -> None:
        prepare(self, *arguments)

    patch.setattr(ProducerStateManager, "prepare_append", twice)


def take_the_version_of_a_request_for_that_of_a_transaction(patch: pytest.MonkeyPatch) -> None:
    """An idempotent producer that its partition has forgotten begins with 0 again, as a transaction would."""
    check = ProducerStateManager._check_sequence

    def confused(self: ProducerStateManager, state: Any, header: Any, transaction_version: int) -> None:
        check(self, state, header._replace(attributes=header.attributes | TRANSACTIONAL_MASK), transaction_version)

    patch.setattr(ProducerStateManager, "_check_sequence", confused)


def list_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local_log, "collect_aborted", lambda *_: ())


def forget_a_partition_of_the_transaction(patch: pytest.MonkeyPatch) -> None:
    deliver = MarkerDelivery.deliver

    def shortened(self: MarkerDelivery, prepared: Any, durable: Any) -> None:
        kept = frozenset(sorted(prepared.partitions)[:-1]) if len(prepared.partitions) > 1 else prepared.partitions
        deliver(self, prepared._replace(partitions=kept), durable)

    patch.setattr(MarkerDelivery, "deliver", shortened)


def forget_a_fence(patch: pytest.MonkeyPatch) -> None:
    """The coordinator accepts any request that knows the producer id."""
    for module in (begin_decisions, end_decisions):
        patch.setattr(module, "check_producer", lambda *_: ErrorCode.NONE)


def take_a_late_end_for_the_current_one(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-17754: what arrives late, on an old connection, ends the next transaction."""
    decide: Any = vars(coordinator)["prepare_end_transaction_v2"]

    def confused(metadata: Any, producer_id: int, _: int, *arguments: Any, **settings: Any) -> Any:
        current = metadata.producer_epoch if metadata is not None else 0
        return decide(metadata, producer_id, current, *arguments, **settings)

    patch.setattr(coordinator, "prepare_end_transaction_v2", confused)


def take_commits_of_old_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetCoordinator, "_check_commit", lambda *_: ErrorCode.NONE)


def acknowledge_acks_1_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    handle = produce.handle

    def hasty(context: Any, request: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            if request.acks == 1:
                inner.setattr(PartitionLog, "is_durable", lambda *_: True)
            return handle(context, request)

    patch.setattr(produce, "handle", hasty)


def delete_the_state_under_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCoordinator, "check_nothing_open", lambda self: None)


def leave_prepared_transactions_of_a_partition_that_comes_back(patch: pytest.MonkeyPatch) -> None:
    """Only a start finishes what is prepared."""
    lose, make = CoordinatorRuntime.lose, TransactionCoordinator.make_shard
    lost: list[tuple[int, int]] = []

    def noted(self: Any, partition: int) -> None:
        lose(self, partition)
        lost.append((id(self), partition))

    def careless(self: TransactionCoordinator, partition: int, epoch: int) -> TransactionShardLife:
        life = make(self, partition, epoch)
        if (id(self._runtime), partition) in lost:
            life.on_active = lambda: None  # type: ignore[method-assign]
        return life

    patch.setattr(CoordinatorRuntime, "lose", noted)
    patch.setattr(TransactionCoordinator, "make_shard", careless)


def go_on_after_the_loss_of_a_partition(patch: pytest.MonkeyPatch) -> None:
    """Its markers and timers live on, and log COMPLETE into the life that follows."""
    patch.setattr(TransactionShardLife, "on_resigned", lambda self: None)


def leave_a_topic_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    records = ClusterState.records

    def shortened(self: ClusterState) -> Any:
        forgetful = copy(self)
        forgetful.topics = {name: topic for name, topic in self.topics.items() if name != "output"}
        return records(forgetful)

    patch.setattr(ClusterState, "records", shortened)


def leave_quotas_and_users_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SecurityState, "records", lambda self: iter(()))


def acknowledge_quotas_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    _acknowledge_at_once(patch, ClientQuotaRecord)


def acknowledge_rules_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    _acknowledge_at_once(patch, AccessControlEntryRecord)


def acknowledge_the_end_of_rules_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    _acknowledge_at_once(patch, RemoveAccessControlEntryRecord)


def _acknowledge_at_once(patch: pytest.MonkeyPatch, kind: type) -> None:
    write = MetadataLog.write

    def hasty(self: MetadataLog, records: Sequence[Any]) -> Completion[None]:
        written = write(self, records)
        return Completion.of(None) if isinstance(records[0], kind) else written

    patch.setattr(MetadataLog, "write", hasty)


def leave_rules_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    records = SecurityState.records

    def without(self: SecurityState) -> Any:
        return (each for each in records(self) if not isinstance(each, AccessControlEntryRecord))

    patch.setattr(SecurityState, "records", without)


def keep_decisions_when_rules_change(patch: pytest.MonkeyPatch) -> None:
    decide = Authorizer._decide_anew

    def stale(self: Authorizer, asked: Asked) -> Any:
        self._version = self.rules.version
        return self._decisions.get(asked) or decide(self, asked)

    patch.setattr(Authorizer, "_decide_anew", stale)


def judge_a_session_again_only_when_it_has_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchSession, "begin_under", lambda self, rules_version: None)


def keep_the_leader_epoch_of_the_last_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_log, "EPOCHS_A_START", 0)


PLANTS: tuple[Plant, ...] = (
    keep_the_leader_epoch_of_the_last_start,
    leave_prepared_transactions_of_a_partition_that_comes_back,
    go_on_after_the_loss_of_a_partition,
    delete_the_state_under_open_transactions,
    leave_a_topic_out_of_snapshots,
    leave_quotas_and_users_out_of_snapshots,
    acknowledge_quotas_before_they_are_durable,
    acknowledge_rules_before_they_are_durable,
    acknowledge_the_end_of_rules_before_it_is_durable,
    leave_rules_out_of_snapshots,
    keep_decisions_when_rules_change,
    judge_a_session_again_only_when_it_has_news,
    acknowledge_acks_1_before_the_flush,
    take_commits_of_old_generations,
    forget_a_fence,
    take_a_late_end_for_the_current_one,
    drop_a_marker,
    turn_a_marker_round,
    complete_before_the_markers,
    show_a_round_partition_by_partition,
    answer_a_waiting_fetch_in_the_middle_of_a_round,
    leave_prepared_transactions_after_a_restart,
    answer_before_the_decision_is_durable,
    let_transactions_live_for_ever,
    show_offsets_before_their_commit,
    keep_offsets_of_an_abort,
    drop_offsets_of_a_commit,
    append_a_retry_again,
    take_the_version_of_a_request_for_that_of_a_transaction,
    list_no_aborted_transactions,
    forget_a_partition_of_the_transaction,
    skip_the_sync_of_the_log,
    answer_before_it_is_durable,
    forget_open_transactions,
    lose_the_transaction_index,
    never_end_an_aborted_transaction,
    map_aborted_keys,
    drop_tombstones_at_once,
)
