"""What tables hold, opened as a start would open it, without a lease.

Owns: the partitions, their segments, and the batches of each. Does not own: the transaction in which all of it is read
(`broker.storage.postgres.snapshot`), what is wrong with it (`oncelog.tools.log.tables.check`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from oncelog.broker.assembly.storage import METADATA_LOG_CONFIG
from oncelog.broker.cluster.metadata_log import ClusterState, MetadataLog
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.config.settings import load_config
from oncelog.broker.config.topic_config import log_config_for
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.sections import LogKey, decode_checked
from oncelog.broker.storage.shared.lease import LeaseKeeper, LeaseTerms
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.opening import FoundLog, find
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.store import SharedLogStore
from oncelog.broker.storage.shared.tables import (
    ChunkRow,
    FetchChunk,
    ReadCatalogue,
    ReadRounds,
    Round,
    Statement,
    Tables,
    TakenLease,
)
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import iter_batches, read_header
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from oncelog.tools.log.stopped_directory import NoListener, NoLoop, raise_it

T = TypeVar("T")
_NO_EPOCH = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A partition that has or had records."""

    topic: str
    partition: int
    topic_id: UUID
    config: LogConfig

    @property
    def name(self) -> str:
        return directory_of(self.topic, self.partition)

    @property
    def key(self) -> LogKey:
        return self.topic_id, self.partition


class TablesContent:
    def __init__(self, tables: Tables) -> None:
        """Raises OSError."""
        only_read = _OnlyRead(tables)
        clock, loop = SystemClock(), NoLoop()
        self._statements = Statements(only_read, loop, clock)
        found = at_once(find(self._statements, _NO_EPOCH))
        self.problems = only_read.problems
        """The faults of the journal."""
        self.found = dict(found.logs)
        self.blobs = dict(found.blobs)
        self.trimmed = only_read.trimmed
        """The newest round that the catalogue covers."""
        self._clock = clock
        taken = TakenLease(_NO_EPOCH, is_elsewhere=False)
        self._store = SharedLogStore(
            self._statements,
            taken,
            found,
            LeaseKeeper(self._statements, loop, clock, taken, LeaseTerms()),
            clock,
            loop,
            raise_it,
        )
        self._logs = LogManager(self._store, Rounds(loop, self._store), NoListener(), clock)
        self._config, _ = load_config()
        self.metadata_lines: tuple[str, ...] = ()
        """The lines that a start would report about the snapshots of the metadata log."""

    @property
    def size_bytes(self) -> int:
        """The size of all chunks."""
        return sum(row.size_bytes for found in self.found.values() for row in found.chunks)

    def metadata(self) -> ClusterState:
        """Raises KafkaError if the metadata log cannot be replayed, OSError."""
        files = SnapshotFiles(self._store.blobs, METADATA.name)
        metadata = MetadataLog(self.open(METADATA), self._clock, files)
        self.metadata_lines = tuple(at_once(metadata.load()))
        return metadata.state

    def places(self, state: ClusterState) -> list[Place]:
        """Every partition that the metadata log knows and that has or had records, without its own."""
        places = [
            Place(topic.name, index, topic.topic_id, log_config_for(topic.config, self._config))
            for topic in state.topics.values()
            for index in range(topic.partition_count)
            if (topic.topic_id, index) in self.found
        ]
        return sorted(places, key=lambda place: place.name)

    def unknown(self, state: ClusterState) -> list[str]:
        """Return the partitions of topics that the metadata log does not know, sorted."""
        known = {METADATA_TOPIC_ID, *state.topics_by_id, *state.removed}
        return sorted(
            f"{found.row.topic if found.row is not None else topic_id}-{partition}"
            for (topic_id, partition), found in self.found.items()
            if topic_id not in known
        )

    def kept_beside(self) -> list[str]:
        """Return the paths of files beside the logs: snapshots of the metadata log, and the login secret."""
        folder = f"{METADATA.name}/"
        return [path for path in sorted(self.blobs) if path == LOGIN_SECRET or path.startswith(folder)]

    def open(self, place: Place) -> PartitionLog:
        return at_once(self._logs.open(place.topic, place.partition, place.topic_id, place.config))

    def segments_of(self, log: PartitionLog) -> "list[TableSegment]":
        """Return the segments of a log; if it is offline, as its rows have them, without producers and transactions."""
        found = self.found.get((log.topic_id, log.partition), FoundLog())
        journal = _journal_of(found, log.log_start_offset)
        if log.offline_error is None and isinstance(log.stored, SharedLog):
            segments = [
                TableSegment(
                    self,
                    segment.base_offset,
                    segment.next_offset,
                    segment.chunks,
                    journal[segment.base_offset],
                    segment.open_producers,
                    segment.transaction_index,
                )
                for segment in log.stored.segments
            ]
        else:
            chunks = [row for row in found.chunks if row.next_offset > log.log_start_offset]
            by_segment = {base: list(rows) for base, rows in groupby(chunks, attrgetter("segment_base"))}
            segments = [
                TableSegment(
                    self,
                    base,
                    _end_of(by_segment.get(base, ()), journal[base]),
                    by_segment.get(base, ()),
                    journal[base],
                )
                for base in sorted({*by_segment, *journal})
            ]
        if segments:
            segments[0].begin_with_its_records()
        return segments

    def body_of(self, row: ChunkRow) -> bytes | None:
        """The batches of a chunk; None if it is gone. Raises OSError."""
        return self._statements.ask(FetchChunk(row.id)).result()


METADATA = Place(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)


class TableSegment:
    """A segment as a file would have it."""

    def __init__(
        self,
        content: TablesContent,
        base_offset: int,
        next_offset: int,
        chunks: Sequence[ChunkRow],
        journal: Sequence[memoryview],
        open_producers: frozenset[int] = frozenset(),
        aborted: TransactionIndex | None = None,
    ) -> None:
        """`journal` has the batches that are in no chunk, `open_producers` those with a transaction open at its base,
        `aborted` the transactions whose markers it has."""
        self._content = content
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.open_producers = open_producers
        self.aborted = aborted or TransactionIndex()
        self.chunks = chunks
        self.journal = b"".join(journal)
        self.size_bytes = sum(row.size_bytes for row in chunks) + len(self.journal)

    def begin_with_its_records(self) -> None:
        """The log starts in the middle of it, and what was before may be gone."""
        first_offset = self.base_offset
        if self.chunks:
            first_offset = self.chunks[0].base_offset
        elif self.journal:
            first_offset = read_header(self.journal).base_offset
        self.base_offset = max(self.base_offset, first_offset)

    def pieces(self) -> Iterator[tuple[ChunkRow | None, bytes | None]]:
        """Each chunk with its batches, None if it is gone; then what the journal has, if anything. Raises OSError."""
        for row in self.chunks:
            yield row, self._content.body_of(row)
        if self.journal:
            yield None, self.journal


def _journal_of(found: FoundLog, start_offset: int) -> defaultdict[int, list[memoryview]]:
    """The batches that are in no chunk, by the base of their segment, as far as they can be distinguished."""
    in_chunks = found.row.next_offset if found.row is not None else 0
    journal: defaultdict[int, list[memoryview]] = defaultdict(list)
    for span in found.spans:
        with suppress(ProtocolError):
            for header, batch in iter_batches(memoryview(span.data)):
                if header.next_offset > max(in_chunks, start_offset):
                    journal[span.segment_base].append(batch)
    return journal


def _end_of(chunks: Sequence[ChunkRow], journal: Sequence[memoryview]) -> int:
    return read_header(journal[-1]).next_offset if journal else chunks[-1].next_offset


class _OnlyRead:
    """The tables: what a start would write is not written, and the journal ends before the first round that cannot be
    used, as the rest is worth reading."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.problems: list[str] = []
        self.trimmed = 0

    def run(self, statement: Statement[T]) -> Completion[T]:
        if hasattr(statement, "epoch"):
            return Completion.of(True)  # type: ignore[arg-type]
        answer = self._tables.run(statement)
        if isinstance(statement, ReadCatalogue) and answer.error is None:
            self.trimmed = answer.result().trimmed  # type: ignore[attr-defined]
        if isinstance(statement, ReadRounds) and answer.error is None:
            return answer.map(lambda rounds: self._usable(statement.above, rounds))  # type: ignore[arg-type, return-value]
        return answer

    def run_now(self, statement: Statement[T]) -> T:
        return self.run(statement).result()

    def _usable(self, above: int, rounds: Sequence[Round]) -> Sequence[Round]:
        usable: list[Round] = []
        for number, body, half in rounds if not self.problems else ():
            wanted = above + len(usable) + 1
            problem = f"the journal lacks round {wanted}" if number != wanted else _problem_of(body)
            if problem is not None:
                self.problems.append(problem if number != wanted else f"round {number} of the journal {problem}")
                break
            usable.append(Round(number, body, half))
        return usable


def _problem_of(body: bytes) -> str | None:
    try:
        for _ in decode_checked(memoryview(body)):
            pass
    except ValueError as damage:
        return f"is damaged, and of which partitions it had records cannot be said: {damage}"
    return None
