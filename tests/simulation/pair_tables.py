"""What observers see of a database that several nodes share.

Owns: its clock, which may be set, the news of its rounds and of its lease, and the metadata log as it was committed.
Does not own: what is judged by them (`pair_world`, `lease_world`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oncelog.broker.cluster.metadata_log import ClusterState
from oncelog.broker.cluster.metadata_records import decode_metadata_record
from oncelog.broker.storage.sections import decode_checked
from oncelog.broker.storage.shared.tables import LOST_EPOCHS, AppendRound, Lease, Statement
from oncelog.broker.succession.follower import METADATA_KEY
from oncelog.broker.turns.ports import MonotonicMs, WallMs
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from tests.fakes.database import Database
from tests.fakes.virtual_time import VirtualTime


class ServerClock:
    """The database's wall clock, which may be set."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self.skew_ms = 0

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self._time.monotonic_ms() + self.skew_ms)

    def wall_ms(self) -> WallMs:
        return WallMs(self._time.wall_ms() + self.skew_ms)


@dataclass
class WatchedDatabase(Database):
    on_round: Callable[[AppendRound], None] = lambda _: None
    on_taken: Callable[["WatchedDatabase"], None] = lambda _: None
    """Called while it still has the row of the one before."""

    def execute(self, statement: Statement[Any]) -> Any:
        answer = super().execute(statement)
        # A round that was trimmed may be written again over a connection that was lost: no node reads it.
        if isinstance(statement, AppendRound) and answer and statement.number > self.trimmed:
            self.on_round(statement)
        return answer

    def take_lease(self, random: Random, seen: Lease | None = None, jump: int = LOST_EPOCHS) -> int | None:
        epoch = super().take_lease(random, seen, jump)
        if epoch is not None:
            self.on_taken(self)
        return epoch


@dataclass
class Committed:
    """The metadata log as it was committed, of one epoch after the other."""

    state: ClusterState = field(default_factory=ClusterState)
    next_offset: int = 0
    known: dict[int, frozenset[str]] = field(default_factory=dict)
    """The state at the last offset of each round."""

    def on_round(self, body: bytes) -> None:
        for key, span in decode_checked(memoryview(body)):
            if key == METADATA_KEY and span is not None:
                for header, batch in iter_batches(memoryview(span.data)):
                    for record in decode_records(batch):
                        if record.value is not None:
                            decoded = decode_metadata_record(memoryview(record.value), record.offset)
                            self.state.replay(decoded, record.offset)
                    self.next_offset = header.next_offset
                self.known[self.next_offset] = records_of(self.state)


def records_of(state: ClusterState) -> frozenset[str]:
    """The records of the state, without those of deleted topics, which a snapshot leaves out once their files are
    gone.
    """
    kept = (each for each in state.records() if getattr(each, "topic_id", None) not in state.removed)
    return frozenset(map(repr, kept))
