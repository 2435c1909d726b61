"""Data directories with very many transactional ids and groups, written by the coordinators' own record encoders.

A hundred thousand clients would need minutes to leave what this leaves in seconds: the same records in the same
batches, one a transition or commit, through the same logs.
"""

from pathlib import Path

import structlog

from oncelog.broker.assembly.broker import assemble
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.config.settings import load_config
from oncelog.broker.coordinator.group.records import CommittedOffset, offset_record
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.records import to_record
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.log.partition_log import AppendOrigin
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.machine import System
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.fakes.virtual_time import VirtualTime

OPEN_EVERY = 1_000
PREPARED_EVERY = 1_001
FIRST_PRODUCER_ID = 1_000_000
TIMEOUT_MS = 900_000


def transactional_id(number: int) -> str:
    return f"orders-processor-{number:06}"


def group_id(number: int) -> str:
    return f"orders-readers-{number:06}"


def expected_state(number: int) -> TransactionState:
    if number % OPEN_EVERY == 0:
        return TransactionState.ONGOING
    return TransactionState.PREPARE_COMMIT if number % PREPARED_EVERY == 0 else TransactionState.COMPLETE_COMMIT


def write_large_logs(data_dir: Path, *, id_count: int, group_count: int, topic: str, history: int = 1) -> None:
    """Leave the files of a broker that has stopped cleanly; each id has `history` records before its last one too."""
    config, _ = load_config(overrides=[f"log.dirs={data_dir}"])
    disk, time = RealDisk(data_dir), VirtualTime()
    system = System(SystemClock(), SystemEntropy(), time, disk, None, _raise)
    broker = assemble(config, system, structlog.wrap_logger(structlog.PrintLogger(), processors=[_drop])).result()
    topics, wall_ms = broker.topics, broker.clock.wall_ms()
    topics.create(topic, 4)
    for name in (TRANSACTION_STATE, CONSUMER_OFFSETS):
        topics.ensure_internal(name)
    time.settle()  # the logs of so many partitions are opened in slices
    for number in range(id_count):
        last = _metadata(number, topic, wall_ms)
        for metadata in (*(_metadata(OPEN_EVERY, topic, wall_ms, number),) * (history - 1), last):
            _append(topics, TRANSACTION_STATE, last.transactional_id, to_record(metadata, 2), wall_ms)
    for number in range(group_count):
        committed = CommittedOffset(number, 0, "", wall_ms)
        _append(
            topics, CONSUMER_OFFSETS, group_id(number), offset_record(group_id(number), (topic, 0), committed), wall_ms
        )
    time.settle()
    broker.rounds.run_now()
    error = broker.logs.close()
    if error is not None:
        raise error


def _metadata(number: int, topic: str, wall_ms: int, named: int | None = None) -> TransactionMetadata:
    state = expected_state(number)
    is_complete = state is TransactionState.COMPLETE_COMMIT
    return TransactionMetadata(
        transactional_id=transactional_id(number if named is None else named),
        producer_id=FIRST_PRODUCER_ID + (number if named is None else named),
        producer_epoch=3,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset() if is_complete else frozenset((topic, index) for index in range(4)),
        start_timestamp_ms=wall_ms,
        last_update_timestamp_ms=wall_ms,
        client_transaction_version=2,
    )


def _append(topics: Topics, name: str, key: str, record: CoordinatorRecord, wall_ms: int) -> None:
    described = topics.get(name)
    if described is None:
        raise RuntimeError(f"{name} was not made")
    log = topics.partition(name, coordinator_partition(key, described.partition_count))
    batch = encode_batch([Record(0, wall_ms, record.key, record.value, ())])
    log.append(memoryview(batch), wall_ms=wall_ms, origin=AppendOrigin.COORDINATOR)


def _raise(error: OSError) -> None:
    raise error


def _drop(*_: object) -> str:
    raise structlog.DropEvent
