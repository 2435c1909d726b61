"""Bugs that Apache Kafka once had, to be put into our broker by a patch: scenarios must catch them.

Owns: the patches, each the smallest that makes our broker behave as Kafka's did. Does not own: the scenarios
(`test_kafka_bugs`).
"""

from typing import Any

import pytest

from oncelog.broker.coordinator.transaction import coordinator as coordinator_module
from oncelog.broker.coordinator.transaction import markers, shard_life
from oncelog.broker.coordinator.transaction.metadata import (
    EXHAUSTED_PRODUCER_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from oncelog.broker.handlers import produce as produce_handler
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import EndMarker


def pid_before_pending(patch: pytest.MonkeyPatch) -> None:
    decide = coordinator_module.prepare_add_partitions

    def buggy(metadata: Any, producer_id: int, *arguments: Any, **settings: Any) -> Any:
        if metadata is not None and producer_id != metadata.producer_id:
            settings["is_pending"] = False
        return decide(metadata, producer_id, *arguments, **settings)

    patch.setattr(coordinator_module, "prepare_add_partitions", buggy)


def answers_the_old_id(patch: pytest.MonkeyPatch) -> None:
    def producer(metadata: TransactionMetadata) -> ProducerIdAndEpoch:
        is_rotating = metadata.next_producer_id != -1
        return ProducerIdAndEpoch(metadata.producer_id, 0 if is_rotating else metadata.producer_epoch)

    patch.setattr(TransactionMetadata, "producer", property(producer))


def bumps_twice(patch: pytest.MonkeyPatch) -> None:
    abort = coordinator_module.prepare_abort_by_coordinator

    def buggy(metadata: TransactionMetadata, **settings: Any) -> Any:
        return abort(metadata._replace(producer_epoch=metadata.producer_epoch + 1), **settings)

    patch.setattr("oncelog.broker.coordinator.transaction.begin_decisions.prepare_abort_by_coordinator", buggy)
    patch.setattr(coordinator_module, "check_step", lambda *_: None)


def asks_the_coordinator_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "is_over", lambda *_: False)


def takes_any_first_sequence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(produce_handler, "TRANSACTION_V2", 0)


def marker_of_version_1(patch: pytest.MonkeyPatch) -> None:
    prepare = ProducerStateManager.prepare_marker

    def buggy(state: ProducerStateManager, marker: EndMarker) -> None:
        prepare(state, marker._replace(transaction_version=0))

    patch.setattr(ProducerStateManager, "prepare_marker", buggy)


def refuses_an_equal_epoch(patch: pytest.MonkeyPatch) -> None:
    """The partition refuses it, and the coordinator, as Kafka's did then, sends the marker again."""
    prepare = ProducerStateManager.prepare_marker

    def buggy(state: ProducerStateManager, marker: EndMarker) -> None:
        epoch = marker.producer_epoch - 1 if marker.transaction_version >= 2 else marker.producer_epoch
        prepare(state, marker._replace(producer_epoch=epoch, transaction_version=0))

    patch.setattr(ProducerStateManager, "prepare_marker", buggy)
    patch.setattr(markers, "_NEWER_COORDINATOR", frozenset())


def sticks_at_the_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionMetadata,
        "is_epoch_exhausted",
        property(lambda known: known.producer_epoch == EXHAUSTED_PRODUCER_EPOCH),
    )


def keeps_no_rotation(patch: pytest.MonkeyPatch) -> None:
    to_record = shard_life.to_record

    def buggy(metadata: TransactionMetadata, version: int, **settings: Any) -> Any:
        return to_record(metadata._replace(previous_producer_id=-1, next_producer_id=-1), version, **settings)

    patch.setattr(shard_life, "to_record", buggy)


def takes_every_end_for_the_current_one(patch: pytest.MonkeyPatch) -> None:
    decide = coordinator_module.prepare_end_transaction_v2

    def buggy(metadata: Any, producer_id: int, epoch: int, *arguments: Any, **settings: Any) -> Any:
        return decide(metadata, producer_id, metadata.producer_epoch, *arguments, **settings)

    patch.setattr(coordinator_module, "prepare_end_transaction_v2", buggy)
