"""What a stored batch makes of the producer state: the one way in which a start replays it, whatever the store."""

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import AbortedEntry
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker


def replay_batch(
    state: ProducerStateManager, header: BatchHeader, batch: memoryview, monotonic_ms: MonotonicMs
) -> AbortedEntry | None:
    """Returns the transaction that the batch aborts, if it does. Raises ProtocolError for a control batch that is no
    marker."""
    if header.producer_id < 0:
        return None
    if not header.is_control:
        state.replay_batch(header, header.base_offset, header.max_timestamp, monotonic_ms)
        return None
    if header.record_count == 0:
        # A marker that compaction emptied, the last batch of its producer.
        state.replay_epoch(header.producer_id, header.producer_epoch, header.max_timestamp, monotonic_ms)
        return None
    kind, coordinator_epoch = decode_end_txn_marker(batch)
    committed = kind is ControlRecordType.COMMIT
    marker = EndMarker(header.producer_id, header.producer_epoch, committed, coordinator_epoch)
    completed = state.replay_marker(marker, header.base_offset, header.max_timestamp, monotonic_ms)
    if completed is None or not completed.aborted:
        return None
    return AbortedEntry(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )
