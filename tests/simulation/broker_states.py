"""What a broker knows that its logs must give back: for the invariants "rebuilt is what was" and "recovered twice".

Owns: the choice of what counts. Left out is what a restart is allowed to forget: sessions, timers, waiting requests.
"""

from collections.abc import Iterable, Iterator

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.coordinator.transaction.states import PREPARED, TransactionState
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.record import decode_records
from tests.fakes.broker import VirtualBroker
from tests.history.auditor import HistoryError
from tests.history.events import Partition, Step
from tests.simulation.log_model import known

COORDINATOR_PARTITIONS = 2


def log_of(virtual: VirtualBroker, partition: Partition) -> PartitionLog:
    try:
        return virtual.broker.topics.partition(*partition)
    except KafkaError as error:
        raise HistoryError(f"I20, a topic that was created is gone, or its partition is offline: {error}") from error


def steps_of(written: Iterable[bytes]) -> Iterator[Step]:
    """Decode these batches of `__transaction_state` into the steps of transactions."""
    for data in written:
        for record in decode_records(memoryview(data)):
            transactional_id, metadata = from_record(CoordinatorRecord(record.key or b"", record.value))
            if metadata is not None:
                pair = metadata.producer_id, metadata.producer_epoch
                yield Step(transactional_id, metadata.state.name, pair)


def ends_at_a_start(virtual: VirtualBroker, wall_ms: int) -> bool:
    """Whether a start at this time ends a transaction at once: one that is over its time, or, while the start after a
    power cut could not be noted, any."""
    return not virtual.broker.logs.store._mark.are_possible or any(
        metadata.state is TransactionState.ONGOING and wall_ms - metadata.start_timestamp_ms >= metadata.timeout_ms
        for metadata in (status.metadata for status in virtual.broker.transactions.current())
    )


def state_of(virtual: VirtualBroker, partitions: tuple[Partition, ...], group: str) -> str | None:
    """Return the coordinators' state as text, or None where a restart may change it: a decision is being carried out (a
    start completes it), a partition of a coordinator is away or being replayed, or a write awaits its round.
    """
    broker = virtual.broker
    if any(log.high_watermark != log.log_end_offset for log in broker.logs.logs):
        return None
    try:
        broker.transactions._runtime.check_complete()
        broker.groups._runtime.check_complete()
    except KafkaError:
        return None
    ids = sorted((status.metadata for status in broker.transactions.current()), key=lambda each: each.transactional_id)
    if any(metadata.state in PREPARED for metadata in ids):
        return None
    lines = [
        f"{each.transactional_id} {each.producer_id} {each.producer_epoch} {each.state.name} {sorted(each.partitions)}"
        for each in ids
    ]
    for partition in partitions:
        log = log_of(virtual, partition)
        lines.append(f"{partition} from {log.log_start_offset} to {log.log_end_offset}")
        lines.append(f"{sorted(known(log.producer_state).items())} open {log.producer_state.ongoing_transactions()}")
    for life in broker.groups._runtime.shards():
        offsets = {str(partition): found.offset for partition, found in life.shard.offsets(group).items()}
        pending = sorted(map(str, life.shard.pending_partitions(group)))
        if offsets or pending:
            lines.append(f"offsets {sorted(offsets.items())} pending {pending}")
    return "\n".join(lines)
