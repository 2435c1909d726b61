"""What the files of a data directory say about one transaction, read while a broker runs or after it was killed.

Owns: the short words for batches and state records. Does not own: whether the files are intact (`oncelog log verify`).
"""

from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.protocol.records.batch import BatchHeader, iter_batches
from oncelog.protocol.records.control import decode_end_txn_marker
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.tools.file_copies import read


def transaction_states(data_dir: Path, transactional_id: str) -> list[str]:
    """Return every logged state of the id, in order."""
    states = []
    for directory in sorted(data_dir.glob(f"{TRANSACTION_STATE}-*")):
        for _, batch in _batches(directory):
            for record in decode_records(batch):
                found, metadata = from_record(CoordinatorRecord(record.key or b"", record.value))
                if found == transactional_id:
                    states.append("Dead" if metadata is None else metadata.state.kafka_name)
    return states


def partition_states(data_dir: Path, topic: str) -> dict[str, list[str]]:
    """Return for each partition the values of its records, and its markers as COMMIT or ABORT, in order."""
    return {directory.name: list(_states(directory)) for directory in sorted(data_dir.glob(f"{topic}-[0-9]*"))}


def _states(directory: Path) -> Iterator[str]:
    for header, batch in _batches(directory):
        if header.is_control:
            yield decode_end_txn_marker(batch)[0].name
        else:
            yield from ((record.value or b"").decode("utf-8", "replace") for record in decode_records(batch))


def _batches(directory: Path) -> Iterator[tuple[BatchHeader, memoryview]]:
    for file in sorted(directory.glob("*.log")):
        yield from iter_batches(memoryview(read(file)))
