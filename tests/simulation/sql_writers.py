"""Applications that produce records in their own SQL transactions, and an auditor of what becomes of them.

Owns: which transactions there are, what each produces, and the model of an outbox: a row that was committed becomes one
record or is refused, once; one that was rolled back is neither. Does not own: the tables (`tests.fakes.tables`).

An account is a row of a user's table. A transaction locks each that it changes, produces after that, and holds its
locks until it ends: so the records of an account are in the order of its numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.shared.tables import LARGEST_BYTES, OutboxRow
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from tests.fakes.database import Database
from tests.history.auditor import HistoryError
from tests.simulation.log_auditor import read_undamaged

EVENTS = "events"
PARTITION_COUNT = 3
MAX_MESSAGE_BYTES = 2_000
_ACCOUNTS = 6
_STEPS_MS = (0, 0, 1, 5, 40, 300)
_PAUSES_MS = (0, 2, 10, 50, 200)
_COMMITS = 0.8
_UNTAKEN_SHARE = 0.15
_UNTAKEN_KINDS = ("topic", "partition", "size", "largest", "headers", "text", "unreadable", "unmovable")


@dataclass
class _Transaction:
    rows: list[OutboxRow] = field(default_factory=list)
    untaken: set[int] = field(default_factory=set)
    numbers: dict[int, int] = field(default_factory=dict)
    """The counter of each locked account."""


class SqlWriters:
    def __init__(
        self,
        database: Database,
        random: Random,
        later: Callable[[int, Callable[[], None]], None],
        wall_ms: Callable[[], int],
        on_commit: Callable[[], None],
    ) -> None:
        self._database = database
        self._random = random
        self._later = later
        self._wall_ms = wall_ms
        self._on_commit = on_commit
        self._ids = count(1)
        self._numbers = dict.fromkeys(range(_ACCOUNTS), 0)
        self._locked: set[int] = set()
        self.is_over = False
        self._committed: dict[int, OutboxRow] = {}
        self._untaken: set[int] = set()
        self.rolled_back = 0
        self._seen: list[list[bytes]] = [[] for _ in range(PARTITION_COUNT)]
        """The values that readers have found in each partition, from its first offset on."""
        self._seen_ids: set[int] = set()
        self._seen_numbers = dict.fromkeys(range(_ACCOUNTS), 0)

    # --- transactions -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """One transaction after another."""
        if self.is_over:
            return
        free = [account for account in self._numbers if account not in self._locked]
        accounts = self._random.sample(free, min(len(free), self._random.choice([1, 1, 2, 4])))
        self._step(_Transaction(), accounts)

    def write_at_once(self) -> None:
        """A transaction that takes no time: it is committed whatever the broker does in that turn."""
        free = [account for account in self._numbers if account not in self._locked]
        if free:
            account = self._random.choice(free)
            transaction = _Transaction(numbers={account: self._numbers[account] + 1})
            self._produce(transaction, account, self._numbers[account] + 1)
            self._commit(transaction)

    def _step(self, transaction: _Transaction, accounts: list[int]) -> None:
        if not accounts:
            self._end(transaction)
            return
        account = accounts.pop()
        if account in self._locked:  # another has taken it since, and to wait may be to wait for each other
            self._end(transaction)
            return
        self._locked.add(account)
        for _ in range(self._random.choice([1, 1, 1, 5])):
            number = transaction.numbers.get(account, self._numbers[account]) + 1
            transaction.numbers[account] = number
            self._produce(transaction, account, number)
        if self._random.random() < _UNTAKEN_SHARE:
            self._produce_untaken(transaction)
        self._later(self._random.choice(_STEPS_MS), lambda: self._step(transaction, accounts))

    def _produce(self, transaction: _Transaction, account: int, number: int) -> None:
        transaction.rows.append(self._row(b"%d" % account, b"%d %d" % (account, number)))

    def _row(self, key: bytes | None, text: bytes) -> OutboxRow:
        row_id = next(self._ids)
        value = b"%d %s" % (row_id, text)
        return OutboxRow(row_id, EVENTS, None, key, value, None, self._wall_ms(), len(value))

    def _produce_untaken(self, transaction: _Transaction) -> None:
        row = self._row(b"k", b"")
        kind = self._random.choice(_UNTAKEN_KINDS)
        if kind in ("unreadable", "unmovable"):  # once it is there, each look fails that reads it
            self._database.unreadable.add(row.id)
        if kind == "unmovable":
            self._database.unmovable.add(row.id)
        row = {
            "topic": row._replace(topic="missing"),
            "partition": row._replace(partition=PARTITION_COUNT),
            "size": row._replace(value=b"x" * MAX_MESSAGE_BYTES),
            "largest": row._replace(size_bytes=LARGEST_BYTES + 1),
            "headers": row._replace(headers='["no pair"]'),
            "text": row._replace(headers=None, problem="its headers are not UTF-8"),
            "unreadable": row,
            "unmovable": row,
        }[kind]
        transaction.rows.append(row)
        transaction.untaken.add(row.id)

    def _end(self, transaction: _Transaction) -> None:
        self._locked.difference_update(transaction.numbers)
        if self._random.random() < _COMMITS:
            self._commit(transaction)
        else:
            self.rolled_back += len(transaction.rows)
        self._later(self._random.choice(_PAUSES_MS), self.write)

    def _commit(self, transaction: _Transaction) -> None:
        self._numbers.update(transaction.numbers)
        self._committed.update((row.id, row) for row in transaction.rows)
        self._untaken |= transaction.untaken
        self._database.produce(transaction.rows)
        self._on_commit()

    # --- the auditor --------------------------------------------------------------------------------------------------

    @property
    def are_taken(self) -> bool:
        return not self._database.outbox.keys() - self._database.unmovable

    @property
    def record_count(self) -> int:
        return len(self._seen_ids)

    @property
    def refused_count(self) -> int:
        return len(self._database.refused_rows)

    def look(self, logs: list[PartitionLog]) -> None:
        """Check what has become readable since the last call. Raises HistoryError."""
        for log, seen in zip(logs, self._seen, strict=True):
            if log.high_watermark < len(seen):
                raise HistoryError(f"records of rows were seen in {log.name}, and are gone")
            for value in _values(log, len(seen)):
                self._note(value)
                seen.append(value)

    def _note(self, value: bytes) -> None:
        row_id, account, number = (int(word) for word in value.split())
        if row_id not in self._committed:
            raise HistoryError(f"row {row_id} is a record, and was never committed")
        if row_id in self._seen_ids:
            raise HistoryError(f"row {row_id} is two records")
        if row_id in self._database.outbox:
            raise HistoryError(f"row {row_id} is a record that can be read, and waits still")
        if number != self._seen_numbers[account] + 1:
            raise HistoryError(f"account {account}: {number} came after {self._seen_numbers[account]}")
        self._seen_ids.add(row_id)
        self._seen_numbers[account] = number

    def audit(self, logs: list[PartitionLog]) -> None:
        """The last word. Raises HistoryError."""
        self.look(logs)
        for log, seen in zip(logs, self._seen, strict=True):
            if _values(log, 0) != seen:
                raise HistoryError(f"{log.name} has other records than were seen in it")
        refused = self._database.refused_rows
        left = self._untaken & self._database.unmovable
        if self._database.outbox.keys() != left:
            raise HistoryError(f"rows wait for ever: {sorted(self._database.outbox)}, and left are {sorted(left)}")
        if set(refused) != self._untaken - left:
            raise HistoryError(f"refused are {sorted(refused)}, and should be {sorted(self._untaken)}")
        if not all(reason for _, reason in refused.values()):
            raise HistoryError("a row is refused, and nobody knows why")
        missing = self._committed.keys() - self._untaken - self._seen_ids
        if missing:
            raise HistoryError(f"rows {sorted(missing)} were committed, and are no records")


def _values(log: PartitionLog, offset: int) -> list[bytes]:
    """Read the values from this offset up to the high watermark."""
    values: list[bytes] = []
    while offset < log.high_watermark:
        for header, batch in iter_batches(read_undamaged(log, offset, 2**30, FetchIsolation.HIGH_WATERMARK).records):
            values += [record.value or b"" for record in decode_records(batch) if record.offset >= offset]
            offset = header.next_offset
    return values
