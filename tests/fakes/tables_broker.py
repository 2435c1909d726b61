"""A broker over tables, on a machine in memory: a VirtualBroker whose disk is a database that outlives it."""

from collections.abc import Sequence
from random import Random
from typing import Any

from oncelog.broker.faults.rule import Rule
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.message import Message
from oncelog.protocol.topics import INTERNAL_TOPICS
from tests.fakes.broker import Reply, VirtualBroker
from tests.fakes.database import Database
from tests.fakes.tables import End, FakeTables
from tests.fakes.virtual_time import VirtualTime

SMALL = SharedSizes(row_bytes=200, checkpoint_bytes=1_000, chunk_bytes=500, written_bytes=500, fetched_bytes=500)
"""Sizes so small that checkpoints, chunks and compaction happen within a test."""
_ENDS = tuple(End)
_COMPACTION_BYTES = 1_000_000
_REPLAYED_BYTES = 500
_LONGEST_WAIT_MS = 10_000


class LateBroker(VirtualBroker):
    """One whose store answers later."""

    def ask(self, request: Message, version: int) -> Any:
        """The answer, after as many statements as it needs."""
        return self.wait_for(self.send(request, version)).message

    def wait_for(self, reply: Reply) -> Reply:
        for _ in range(_LONGEST_WAIT_MS):
            if reply.is_there:
                break
            self.time.advance(1)
        return reply


class TablesBroker(LateBroker):
    """`killed` and `crashed` give the next one over the same tables: it is all the same to them how it has ended."""

    def __init__(
        self,
        *overrides: str,
        database: Database | None = None,
        time: VirtualTime | None = None,
        seed: int = 0,
        tables: FakeTables | None = None,
        sizes: SharedSizes = SMALL,
        rules: Sequence[Rule] = (),
        with_faults: bool = True,
    ) -> None:
        """Raises OSError. Without `tables` of its own statements take no time."""
        time = time or VirtualTime()
        self.database = database or Database()
        self.tables = tables or FakeTables(self.database, time, time, Random(seed), takes_time=False)
        self.failures: list[OSError] = []
        self.problems: list[str] = []
        compaction = CompactionSettings(
            time, _COMPACTION_BYTES, 0, self.problems.append, INTERNAL_TOPICS, _REPLAYED_BYTES
        )
        terms = LeaseTerms(f"start {seed}", node_id=1)
        opening = Slices(time).run_own(
            open_store(self.tables, time, time, self.failures.append, compaction, sizes, terms)
        )
        while not opening.done:
            time.advance(1)
        self.store: SharedLogStore = opening.result()
        super().__init__(*overrides, time=time, seed=seed, store=self.store, rules=rules, with_faults=with_faults)

    @property
    def operations_left(self) -> int | None:
        """Count the places where the broker can still be stopped: before each statement that writes, after it, and with
        its answer lost.
        """
        left = self.tables.writes_left
        return None if left is None else left * len(_ENDS) + _ENDS.index(self.tables.end)

    @operations_left.setter
    def operations_left(self, count: int | None) -> None:
        if count is None:
            self.tables.writes_left = None
        else:
            self.tables.writes_left, how = divmod(count, len(_ENDS))
            self.tables.end = _ENDS[how]

    @property
    def has_ended(self) -> bool:
        """Its connections are cut, and those of the store are not used any more."""
        return self.tables.writes_left is not None and self.tables.writes_left < 0

    def killed(self, *overrides: str, rules: Sequence[Rule] = ()) -> "TablesBroker":
        return self._after(self._seed, overrides, rules)

    def crashed(self, seed: int) -> "TablesBroker":
        """`seed` decides what becomes of what is in flight."""
        return self._after(seed, ())

    def _after(self, seed: int, overrides: Sequence[str], rules: Sequence[Rule] = ()) -> "TablesBroker":
        database, time = self.database.copy(), VirtualTime(self.faults.time.wall_ms())
        tables = FakeTables(database, time, time, Random(seed), takes_time=False)
        return TablesBroker(
            *self._overrides, *overrides, database=database, time=time, seed=self._seed + 1, tables=tables, rules=rules
        )
