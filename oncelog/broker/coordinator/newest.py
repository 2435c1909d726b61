"""What a coordinator needs of its log: the newest record of each key, as compaction would leave it.

Owns: the records of a log that is being read, until they are replayed. Most are of transactions and commits that later
ones have overtaken: to decode and apply each of them takes three times as long as to find the newest.
Invariant: a shard that is given these is that of the whole log, since compaction may have left no others.
"""

from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records

_NO_PRODUCER = -1


class NewestRecords:
    def __init__(self) -> None:
        self._committed: dict[bytes, Record] = {}
        self._pending: dict[int, dict[bytes, Record]] = {}
        """The newest records of transactions that have not ended, by producer and key."""

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """The next batch of the log. Raises KafkaError(CORRUPT_MESSAGE)."""
        if header.record_count == 0:
            return  # emptied by compaction
        if header.is_control:
            self._end_transaction(header.producer_id, decode_end_txn_marker(batch)[0])
            return
        into = self._pending.setdefault(header.producer_id, {}) if header.is_transactional else self._committed
        for record in decode_records(batch):
            if record.key is None:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record without a key at offset {record.offset}")
            into[record.key] = record

    def _end_transaction(self, producer_id: int, kind: ControlRecordType) -> None:
        pending = self._pending.pop(producer_id, {})
        if kind is ControlRecordType.COMMIT:
            for key, record in pending.items():
                newest = self._committed.get(key)
                if newest is None or newest.offset < record.offset:
                    self._committed[key] = record

    def take(self) -> list[tuple[Record, int]]:
        """In the order of the log, each with the producer whose open transaction it is part of, or −1; once."""
        records = [(record, _NO_PRODUCER) for record in self._committed.values()]
        for producer_id, pending in self._pending.items():
            records += [(record, producer_id) for record in pending.values()]
        self._committed, self._pending = {}, {}
        records.sort(key=lambda each: each[0].offset)
        return records
