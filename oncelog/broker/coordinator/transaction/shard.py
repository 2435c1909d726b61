"""The transactional ids of one `__transaction_state` partition.

Owns: the current metadata of each id, changed by `replay` alone. Does not own: what a restart forgets (pending
transitions, timers, the epoch before the last bump: `shard_life`). Invariant: the same records give the same shard.
Whether each step is legal is checked when it is decided, not here, since compaction drops steps.
"""

from collections.abc import Iterable

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.log.values import EndMarker
from oncelog.protocol.errors import ErrorCode, KafkaError


class TransactionShard:
    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._metadata: dict[str, TransactionMetadata] = {}

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._metadata.get(transactional_id)

    def all(self) -> Iterable[TransactionMetadata]:
        return self._metadata.values()

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Raises KafkaError(CORRUPT_MESSAGE) for a record that no coordinator can have written."""
        metadata: TransactionMetadata | None
        if isinstance(record.decoded, TransactionMetadata):
            metadata = record.decoded
            transactional_id = metadata.transactional_id
        else:
            transactional_id, metadata = from_record(record)
        if metadata is None:
            self._metadata.pop(transactional_id, None)
            return
        previous = self._metadata.get(transactional_id)
        if (
            previous is not None
            and previous.producer_id == metadata.producer_id
            and metadata.producer_epoch < previous.producer_epoch
        ):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"__transaction_state offset {offset}: the epoch of {transactional_id} goes back from "
                f"{previous.producer_epoch} to {metadata.producer_epoch}",
            )
        self._metadata[transactional_id] = metadata

    def replay_end_transaction_marker(self, marker: EndMarker, offset: int) -> None:
        """Do nothing: our own records are never transactional, though an operator may have sent a marker here."""
