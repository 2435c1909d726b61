"""Share-partitions against Apache Kafka's own SharePartition, and what is written against its share coordinator.

Needs Java and Kafka's jars: ONCELOG_KAFKA_LIBS names their directory. The histories leave out what is different on
purpose (`oncelog/broker/sharing/acquiring.py` and `in_flight.py` say why): aborted records move the start offset at
once here, locks before the log's start are forgotten, and a refused acknowledgement renews nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from oncelog.broker.sharing.fetched import read_fetched
from oncelog.broker.sharing.partition import SharePartition
from oncelog.broker.sharing.values import (
    ACCEPT,
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    Acquisition,
    Run,
    ShareLimits,
    StateChange,
)
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record
from tests.support.kafka.java import ask_kafka
from tests.support.transactions.share_state import Written, contiguous

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "KafkaSharePartition.java"
MEMBERS = ("a", "b", "c")
LOCK_MS = 100
MANY_LOCKS = 10_000
"""A limit above the number of records in any history."""


@dataclass
class History:
    """Random steps of one share-partition: as Kafka is asked for them, and what ours gives."""

    source: random.Random
    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    exact: list[tuple[bool, bool]] = field(default_factory=list)
    """Whether the start offset, and what is written, is Kafka's own at each step. Kafka's start offset lags behind
    while there are gaps to read, and it writes each expired batch by itself, with the start offset of that moment."""
    log: list[tuple[int, bytes]] = field(default_factory=list)
    """The last offset of each batch, and its bytes."""
    log_end: int = 0
    now: int = 1000
    written: Written = field(default_factory=Written)

    has_transactions: bool = False
    """Whether records are of aborted transactions, and the log's start moves. Then, too, Kafka's start offset lags."""
    aborted: dict[int, int] = field(default_factory=dict)
    """The first offset of each aborted transaction, by producer id."""

    def __post_init__(self) -> None:
        self.has_had_gaps = self.has_transactions
        deliveries = self.source.choice((2, 3, 5, 10))
        locks = self.source.choice((12, 40, MANY_LOCKS)) if not self.has_transactions else MANY_LOCKS
        self.limits = ShareLimits(LOCK_MS, deliveries, locks, True)
        self.share = SharePartition(self.written.read())
        self._note(f"new {locks} {deliveries} {LOCK_MS}")

    was_written_by_expiry: bool = False
    has_had_gaps: bool = False
    is_over: bool = False

    def step(self) -> None:
        kind = self.source.choices(
            (
                self.append,
                self.fetch,
                self.acknowledge_own,
                self.acknowledge_any,
                self.release,
                self.wait,
                self.restart,
                self.delete_records,
            ),
            (3, 8, 6, 2, 3, 2, not self.has_transactions, self.has_transactions),
        )[0]
        kind()

    def append(self) -> None:
        for _ in range(self.source.randrange(1, 4)):
            records = [Record(delta, 0, None, b"") for delta in range(self.source.choice((1, 2, 5, 16)))]
            producer_id = self.log_end if self.has_transactions and self.source.random() < 0.6 else -1
            if producer_id < 0:
                self._append(encode_batch(records, base_offset=self.log_end), len(records))
                continue
            is_aborted = self.source.random() < 0.7
            if is_aborted:
                self.aborted[producer_id] = self.log_end
            batch = encode_batch(
                records,
                base_offset=self.log_end,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            self._append(batch, len(records))
            kind = ControlRecordType.ABORT if is_aborted else ControlRecordType.COMMIT
            self._append(encode_end_txn_marker(producer_id, 0, kind, 0, 0, base_offset=self.log_end), 1)

    def _append(self, batch: bytes, count: int) -> None:
        self.log_end += count
        self.log.append((self.log_end - 1, batch))

    def delete_records(self) -> None:
        # Behind all that is in flight, Kafka's start offset returns to what was there once those locks expire.
        log_start = self.share.start_offset + self.source.randrange(1, 12)
        if log_start >= self.share.end_offset:
            return
        self.log = [(last, batch) for last, batch in self.log if last >= log_start]
        self._apply(self.share.move_start(log_start))
        self._note(f"start {log_start}")

    def fetch(self) -> None:
        offset = self.share.next_fetch_offset
        batches = [batch for last, batch in self.log if last >= offset][: self.source.randrange(1, 8)]
        if not batches or not self.share.can_acquire(self.limits):
            return
        member = self.source.choice(MEMBERS)
        mode = BATCH_OPTIMIZED if self.has_transactions else self.source.choice((BATCH_OPTIMIZED, RECORD_LIMIT))
        batch_size, max_records = self.source.choice((1, 5, 500)), self.source.choice((1, 4, 20, 500))
        fetched = read_fetched(offset, memoryview(b"".join(batches)), self.aborted.items())
        assert fetched is not None
        request = Acquisition(max_records, batch_size, mode, self.limits, MonotonicMs(self.now))
        acquired = self.share.acquire(member, request, fetched)
        aborted = ",".join(f"{producer_id}:{first}" for producer_id, first in self.aborted.items()) or "-"
        question = f"fetch {member} {mode} {batch_size} {max_records} {offset} {b''.join(batches).hex()} {aborted}"
        self._note(question, ",".join(f"{first}-{last}:{count}" for first, last, count in acquired))

    def acknowledge_own(self) -> None:
        """All or a part of what a member has, with one type for each batch, or one for each offset."""
        member = self.source.choice(MEMBERS)
        owned = [o for run in self.share.runs() if run.member_id == member for o in range(run[0], run[1] + 1)]
        parts = contiguous(owned[self.source.randrange(4) :])
        parts = self.source.sample(parts, self.source.randint(0, len(parts)))
        kinds = self.source.choice(((ACCEPT,), (RELEASE,), (REJECT,), (RENEW,), (0, 1, 2, 3, 4), (1, 1, 1, 2)))
        batches = []
        for part in sorted(parts):
            count = 1 if self.source.random() < 0.5 else len(part)
            batches.append(AcknowledgementBatch(part[0], part[-1], self.source.choices(kinds, k=count)))
        self._acknowledge(member, batches)

    def acknowledge_any(self) -> None:
        # An acknowledgement before the start offset is ignored, so it must be Kafka's as well.
        lowest = self.share.start_offset if self.has_had_gaps else max(0, self.share.start_offset - 2)
        first = lowest + self.source.randrange(20)
        kind = self.source.choice((ACCEPT, RELEASE, REJECT))
        batch = AcknowledgementBatch(first, first + self.source.randrange(8), (kind,))
        self._acknowledge(self.source.choice(MEMBERS), [batch])

    def release(self) -> None:
        member = self.source.choice(MEMBERS)
        self._apply(self.share.release(member, self.limits))
        self._note(f"release {member}")

    def wait(self) -> None:
        time_ms = self.source.choice((1, LOCK_MS // 2, LOCK_MS))
        # A timer for each millisecond, as those of Kafka, which writes after each.
        for _ in range(time_ms):
            self.now += 1
            expiry = self.share.next_expiry_ms()
            if expiry is not None and expiry <= self.now:
                self._apply(self.share.expire(MonotonicMs(self.now), self.limits), has_expired=True)
        self._note(f"wait {time_ms}")

    def restart(self) -> None:
        self.share = SharePartition(self.written.read())
        known = {o for run in self.share.runs() for o in range(run.first_offset, run.last_offset + 1)}
        if not known.issuperset(range(self.share.start_offset, max(known, default=-1))):
            self.has_had_gaps = True
            # With a start offset that lags behind, fewer records may be locked in Kafka.
            self.is_over = self.limits.partition_max_record_locks < MANY_LOCKS
        self._note("restart")

    def _acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch]) -> None:
        if not batches:
            return
        given = ""
        try:
            change = self.share.acknowledge(member, batches, self.limits, MonotonicMs(self.now))
        except KafkaError as error:
            # The text of others depends on whether Kafka has split a batch, which it also does for what it refuses.
            given = error.code.name
            if error.code is ErrorCode.INVALID_REQUEST:
                given += f" {error.message}"
        else:
            self._apply(change)
        asked = ";".join(f"{first}:{last}:{','.join(map(str, types))}" for first, last, types in batches)
        self._note(f"acknowledge {member} {asked}", given)

    def _apply(self, change: StateChange, *, has_expired: bool = False) -> None:
        if change.batches:
            self.was_written_by_expiry = has_expired
            self.written.write(change.start_offset, change.delivery_complete_count, change.batches)
        self.share.apply(change)

    def _note(self, question: str, given: str = "") -> None:
        share, written = self.share, self.written.read()
        runs = _joined([run for run in share.runs() if run.last_offset >= share.start_offset], share.start_offset)
        batches = [f"{first}-{last}:{state}:{count}" for first, last, state, count in written.batches]
        self.questions.append(question)
        self.exact.append((not self.has_had_gaps, not self.was_written_by_expiry))
        self.answers.append(
            f"{given} | {share.start_offset} {share.end_offset} {share.next_fetch_offset} "
            f"{share.delivery_complete_count} [{' '.join(runs)}] written {written.start_offset} "
            f"{written.delivery_complete_count} [{' '.join(batches)}]"
        )


def _joined(runs: Sequence[Run], start_offset: int) -> list[str]:
    """The runs from the start offset on, those of neighbouring batches together."""
    texts = []
    offsets = [(o, run[2:5]) for run in runs for o in range(max(run.first_offset, start_offset), run.last_offset + 1)]
    for (_, kind), group in groupby(enumerate(offsets), key=lambda one: (one[1][0] - one[0], one[1][1])):
        found = [offset for _, (offset, _) in group]
        texts.append(f"{found[0]}-{found[-1]}:" + ":".join(map(str, kind)))
    return texts


def _compare(ours: str, kafkas: str, *, is_start_exact: bool, is_written_exact: bool) -> None:
    if is_start_exact and is_written_exact:
        assert ours == kafkas
    elif is_start_exact:
        assert ours.partition(" written ")[0] == kafkas.partition(" written ")[0]
    else:
        (given, start, _, next_fetch, runs), told = _parts(ours), _parts(kafkas)
        assert (given, next_fetch) == (told[0], told[3])
        assert int(told[1]) <= int(start)
        from_start = {offset: state for offset, state in told[4].items() if offset >= int(start)}
        assert runs == from_start


def _parts(answer: str) -> tuple[str, str, str, str, dict[int, str]]:
    given, _, rest = answer.partition(" | ")
    if given.startswith("INVALID_"):
        given = "refused"  # which of both depends on what is kept before the start offset
    start, end, next_fetch, _, runs = rest.partition(" written ")[0].split(" ", 4)
    states: dict[int, str] = {}
    for run in runs[1:-1].split():
        offsets, _, state = run.partition(":")
        first, last = map(int, offsets.split("-"))
        states |= dict.fromkeys(range(first, last + 1), state)
    return given, start, end, next_fetch, states


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("has_transactions", [False, True])
def test_a_share_partition_does_what_kafkas_does(seed: int, *, has_transactions: bool) -> None:
    """Acquired ranges, errors with their texts, offsets, counts, all states and what is written, step by step."""
    histories = []
    for number in range(100):
        history = History(random.Random(f"{seed}/{number}"), has_transactions=has_transactions)
        for _ in range(60):
            if not history.is_over:
                history.step()
        histories.append(history)
    told = iter(ask_kafka(PROGRAM, [question for history in histories for question in history.questions]))
    for history in histories:
        for number, answer in enumerate(history.answers):
            asked = "\n".join(one[:120] for one in history.questions[max(0, number - 20) : number + 1])
            before = history.answers[number - 1] if number else ""
            is_start_exact, is_written_exact = history.exact[number]
            kafkas = next(told)
            try:
                _compare(answer, kafkas, is_start_exact=is_start_exact, is_written_exact=is_written_exact)
            except AssertionError as error:
                raise AssertionError(f"{number} after\n{before}\n{asked}\nours   {answer}\nkafkas {kafkas}") from error
