"""What a start finds in the tables, and how each log is opened from it.

Owns: the replay of the journal above the catalogue. Invariant: a log is opened as the last committed round has left it,
and no chunk is read for that.
"""

from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import OpenedLog
from oncelog.broker.storage.batch_replay import replay_batch
from oncelog.broker.storage.producer_snapshot import load_batches, load_snapshot
from oncelog.broker.storage.sections import LogKey, Span, decode_checked, encode_checked
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, LogRow, ReadCatalogue, ReadRounds
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import iter_batches

_DAMAGED = "damaged/"


@dataclass
class FoundLog:
    row: LogRow | None = None
    chunks: list[ChunkRow] = field(default_factory=list)
    start_offset: int = 0
    spans: list[Span] = field(default_factory=list)
    """Its batches in the journal, in order."""
    damage: str | None = None
    """Why some of its batches in the journal are lost, if so."""


@dataclass
class Found:
    """All that was found, under the lease of this epoch."""

    epoch: int
    number: int = 0
    """The number of the newest round."""
    half: int = 0
    """The half of the journal that has the newest round."""
    journal_bytes: int = 0
    logs: dict[LogKey, FoundLog] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def log(self, key: LogKey) -> FoundLog:
        found = self.logs.get(key)
        if found is None:
            found = self.logs[key] = FoundLog()
        return found


class JournalGap(OSError):
    """The newest checkpoint and the rounds of the journal do not join."""


def find(statements: Statements, epoch: int) -> Sliced[Found]:
    """Read what was committed, under the lease or only to look at it. Raises JournalGap, OSError."""
    found = Found(epoch)
    reading = statements.ask(ReadCatalogue())
    yield reading
    catalogue = reading.result()
    found.number = catalogue.trimmed
    found.blobs = dict(catalogue.blobs)
    for row in catalogue.logs:
        found.log(row.key).row = row
    for chunk in catalogue.chunks:
        found.log(chunk.key).chunks.append(chunk)
    for key, start_offset in catalogue.starts.items():
        found.log(key).start_offset = start_offset
    for path, note in found.blobs.items():
        if path.startswith(_DAMAGED):
            topic_id, _, partition = path.removeprefix(_DAMAGED).rpartition("-")
            reason, _, _ = note.partition(b"\n")
            found.log((UUID(topic_id), int(partition))).damage = reason.decode(errors="replace")
    piece = statements.ask(ReadRounds(found.number))
    while True:
        yield piece
        rounds = piece.result()
        if not rounds:
            return found
        piece = statements.ask(ReadRounds(rounds[-1].number))  # on its way while these are read
        for number, body, half in rounds:
            if number != found.number + 1:
                raise JournalGap(f"the journal lacks round {found.number + 1}: the database is not what it was")
            found.number, found.half = number, half
            found.journal_bytes += len(body)
            _take_sections(found, number, body)
            yield 1


def _take_sections(found: Found, number: int, body: bytes) -> None:
    try:
        for key, span in decode_checked(memoryview(body)):
            if span is not None:
                found.log(key).spans.append(span)
            else:
                found.log(key).damage = f"round {number} of the journal is damaged"
    except ValueError as damage:
        raise OSError(
            f"round {number} of the journal is damaged, and it is unknown which partitions it had records of: {damage}"
        ) from damage


def damage_path(key: LogKey) -> str:
    """Return the path of the note that the log's journal is damaged; the next checkpoint trims the journal itself."""
    return f"{_DAMAGED}{key[0]}-{key[1]}"


def damage_note(reason: str, found: FoundLog, key: LogKey) -> bytes:
    """Return the note: the reason, and the log's batches in the journal."""
    return reason.encode() + b"\n" + encode_checked((key, span) for span in found.spans)


def open_log(log: SharedLog, found: FoundLog, clock: Clock) -> OpenedLog:
    """Fill the log with what was found of it; `OpenedLog.offline_error` says why it cannot be used."""
    state, epochs, start_offset = ProducerStateManager(), LeaderEpochs(), found.start_offset
    error: str | None = None
    try:
        if found.row is not None:
            state = load_snapshot(found.row.snapshot, clock.monotonic_ms())
            load_batches(state, found.row.snapshot, found.row.producer_batches or None)
            epochs = LeaderEpochs(found.row.epochs)
        if found.damage is not None:
            raise ValueError(found.damage)
        _require_all_chunks(found)
        for row in found.chunks:
            log.segment_from(row.segment_base, frozenset(row.open_producers)).add_chunk(row)
        for span in found.spans:
            _replay(log, span, state, epochs, clock)
    except (ValueError, ProtocolError) as damage:
        error = str(damage)
    left: list[ChunkRow] = []
    while len(log.segments) and log.segments[0].next_offset <= start_offset:
        left += log.segments[0].chunks
        log.segments.take_first()
    log.drop(left)  # the broker before had no time for it
    state.on_high_watermark(log.log_end_offset)
    log.epochs = epochs.entries
    log.opened = OpenedLog(log, state, start_offset, max(log.log_end_offset, start_offset), error, epochs)
    return log.opened


def _require_all_chunks(found: FoundLog) -> None:
    """Check that the chunks reach from the log start to the end in the catalogue, without a gap; some may be below the
    start. Raises ValueError."""
    checkpointed = found.row.next_offset if found.row is not None else 0
    start_offset = end_offset = found.start_offset
    for slot, row in enumerate(found.chunks):
        if row.base_offset > max(end_offset, start_offset) or (slot and row.base_offset < end_offset):
            raise ValueError(f"chunk {row.id} at offset {row.base_offset} does not follow offset {end_offset}")
        end_offset = row.next_offset
    if end_offset > max(checkpointed, start_offset) or max(end_offset, start_offset) < checkpointed:
        raise ValueError(f"its chunks end at offset {end_offset} instead of {checkpointed}")


def _replay(log: SharedLog, span: Span, state: ProducerStateManager, epochs: LeaderEpochs, clock: Clock) -> None:
    for header, batch in iter_batches(memoryview(span.data)):
        if header.next_offset <= log.checkpointed:
            continue
        if header.base_offset != log.log_end_offset:
            raise ValueError(f"the journal continues at offset {header.base_offset} instead of {log.log_end_offset}")
        if header.partition_leader_epoch > epochs.latest:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        is_new = not len(log.segments) or log.segments[-1].base_offset != span.segment_base
        open_producers = state.open_producers() if is_new else frozenset()
        aborted = replay_batch(state, header, batch, clock.monotonic_ms())
        log.log_end_offset = header.next_offset
        segment = log.segment_from(span.segment_base, open_producers)
        segment.append(bytes(batch), header.next_offset, header.max_timestamp)
        if aborted is not None:
            segment.transaction_index.append(aborted)
