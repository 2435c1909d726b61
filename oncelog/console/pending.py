"""Offsets that transactions have sent to a group and not ended yet: pure.

Owns: what the open batches of the group's partition of `__consumer_offsets` say. Does not own: reading them.
OffsetFetch says only that something is pending (UNSTABLE_OFFSET_COMMIT), not where, which offset and whose.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import TopicPartition
from oncelog.console.partition_map import cells_of
from oncelog.protocol import state_record_codec
from oncelog.protocol.generated import offset_commit_key, offset_commit_value
from oncelog.protocol.generated.offset_commit_key import OffsetCommitKey
from oncelog.protocol.generated.offset_commit_value import OffsetCommitValue
from oncelog.tools.log.map.partition import State


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """The offset that the group will have committed if the transaction of this producer commits."""

    offset: int
    producer_id: int
    producer_epoch: int


def pending_offsets(group_id: str, batches: Iterable[RawBatch]) -> dict[TopicPartition, PendingOffset]:
    """Return the last pending offset of each partition. Raises ProtocolError for a record that is not a group's."""
    read = list(batches)
    found: dict[TopicPartition, PendingOffset] = {}
    for batch, cell in zip(read, cells_of(read), strict=True):
        if cell.state is not State.OPEN:
            continue
        for record in batch.records():
            if record.key is None or record.value is None:
                continue
            if state_record_codec.prefix(record.key) != offset_commit_key.API_KEY:
                continue
            key: OffsetCommitKey = state_record_codec.decode(offset_commit_key, record.key, 0)
            if key.group == group_id:
                value: OffsetCommitValue = state_record_codec.decode(offset_commit_value, record.value)
                place = TopicPartition(key.topic, key.partition)
                found[place] = PendingOffset(value.offset, cell.producer_id, cell.producer_epoch)
    return found
