"""Batches as `Consumer.raw_batches` returns them: a log for the tests of the console.

Owns: `Log`, which is written step by step, knows how each transaction ended, and gives what a reader gets of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncelog.client.consuming.raw_batches import Fate, RawBatch
from oncelog.client.values.records import TopicPartition
from oncelog.console.partition_map import Bounds
from oncelog.protocol.records.batch import encode_batch, read_header
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record
from oncelog.tools.log.map.partition import State

PLACE = TopicPartition("orders", 0)
_OUTCOMES: dict[State, Fate] = {
    State.PLAIN: "plain",
    State.COMMITTED: "committed",
    State.ABORTED: "aborted",
    State.OPEN: "open",
    State.COMMIT_MARKER: "marker",
    State.ABORT_MARKER: "marker",
}


@dataclass
class Log:
    """`states` is the truth about each batch: what a reader of the whole log must find."""

    place: TopicPartition = PLACE
    end: int = 0
    states: list[State] = field(default_factory=list)
    _data: list[tuple[bytes, ControlRecordType | None]] = field(default_factory=list)
    _open: dict[int, list[int]] = field(default_factory=dict)

    def write(
        self,
        *records: tuple[bytes | None, bytes | None],
        producer_id: int = -1,
        open_: bool = False,
        compression: str = "none",
    ) -> None:
        """One batch; `open_` if it is of a transaction."""
        rows = [Record(0, 1_000 + self.end, key, value) for key, value in records]
        data = encode_batch(
            rows,
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            transactional=open_,
            compression=compression,
        )
        if open_:
            self._open.setdefault(producer_id, []).append(len(self.states))
        self._append(data, State.OPEN if open_ else State.PLAIN, len(records), None)

    def end_transaction(self, producer_id: int, kind: ControlRecordType) -> None:
        is_commit = kind is ControlRecordType.COMMIT
        for number in self._open.pop(producer_id, ()):
            self.states[number] = State.COMMITTED if is_commit else State.ABORTED
        data = encode_end_txn_marker(producer_id, 0, kind, 3, 1_000 + self.end, base_offset=self.end)
        self._append(data, State.COMMIT_MARKER if is_commit else State.ABORT_MARKER, 1, kind)

    def _append(self, data: bytes, state: State, count: int, kind: ControlRecordType | None) -> None:
        self.states.append(state)
        self._data.append((data, kind))
        self.end += count

    @property
    def bounds(self) -> Bounds:
        first_open = [read_header(self._data[numbers[0]][0]).base_offset for numbers in self._open.values()]
        return Bounds(0, min(first_open, default=self.end), self.end, self.end)

    def batches(self) -> list[RawBatch]:
        """The batches with the fates that a reader can know: transactional batches above the last stable offset have
        none.
        """
        stable, found = self.bounds.last_stable_offset, []
        for state, (data, kind) in zip(self.states, self._data, strict=True):
            header = read_header(data)
            fate = _OUTCOMES[state]
            if header.base_offset >= stable and fate in ("committed", "aborted"):
                fate = "open"
            epoch = None if kind is None else 3
            found.append(RawBatch(self.place, header, data, fate, kind, epoch, self.end, stable))
        return found


def log_of(steps: Iterable[tuple[str, int, int]]) -> Log:
    """Steps: what ("write", "send", "commit", "abort"), whose, how many records."""
    log = Log()
    for what, producer_id, count in steps:
        if what in ("write", "send"):
            rows = [(None, b"value")] * count
            log.write(*rows, producer_id=producer_id, open_=what == "send")
        else:
            log.end_transaction(producer_id, ControlRecordType[what.upper()])
    return log
