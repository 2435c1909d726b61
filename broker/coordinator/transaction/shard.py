"""The transactional ids of one `__transaction_state` partition.

Owns: the current metadata of each id, changed by `replay` alone. What a restart must forget (pending transitions,
timers) is not here but with the coordinator. Invariant: every replayed record is a legal move from the one before.
"""

from collections.abc import Iterable

from broker.coordinator.runtime import CoordinatorRecord
from broker.coordinator.transaction.metadata import TransactionMetadata, check_replayed, from_record


class TransactionShard:
    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._metadata: dict[str, TransactionMetadata] = {}

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._metadata.get(transactional_id)

    def all(self) -> Iterable[TransactionMetadata]:
        return self._metadata.values()

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        transactional_id, metadata = from_record(record)
        if metadata is None:
            self._metadata.pop(transactional_id, None)
            return
        check_replayed(self._metadata.get(transactional_id), metadata)
        self._metadata[transactional_id] = metadata

    def replay_end_transaction_marker(
        self, *, producer_id: int, producer_epoch: int, committed: bool, offset: int
    ) -> None:
        """The coordinator's own records are never part of a transaction."""
        raise ValueError(f"a transaction marker at offset {offset} of __transaction_state")
