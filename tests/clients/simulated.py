"""Clients of the simulated broker, as generators: they yield a request with its version and get the answer, or None.

Owns: what each client does, and what it notes down in the history. None means that no answer came in time: the request
may or may not have been carried out, or will be. A client asks again as Kafka's own clients do: the same request, until
an answer comes.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from tests.history.events import End, Identity, Init, OffsetFetch, Outcome, Partition, Poll, Send, SendOffset, Span
from tests.history.recorder import Operation, Pending, Recorder

Question = tuple[Message, int]
Life = Generator[Question | int, Any, None]
"""Yields a question, or a number of milliseconds to wait."""
E = ErrorCode
TIMEOUT_MS = 3_000
LEGS: tuple[Partition, ...] = (("ledger", 0), ("ledger", 1))
INPUT: Partition = ("input", 0)
OUTPUT: Partition = ("output", 0)
TABLE: Partition = ("table", 0)
"""Compacted: a record of it is gone as soon as its key has a newer one."""
_TABLE_KEYS = (b"a", b"b", b"c")
GROUP = "group"
STABLE_OFFSET = OffsetFetchRequest(
    group_id=GROUP,
    topics=[OffsetFetchRequestTopic(name=INPUT[0], partition_indexes=[INPUT[1]])],
    require_stable=True,
)
_AGAIN = frozenset(
    {
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.NOT_COORDINATOR,
        E.CONCURRENT_TRANSACTIONS,
        E.NOT_ENOUGH_REPLICAS,
        E.KAFKA_STORAGE_ERROR,
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNSTABLE_OFFSET_COMMIT,
    }
)
_LATEST = -1
_MANY_REFUSALS = 100


class Fenced(Exception):
    """A newer producer has taken the transactional id, or the coordinator has ended the transaction."""


class Aborts(Exception):
    """This transaction must be aborted; the producer may continue."""


@dataclass
class Session:
    """One incarnation of a transactional producer."""

    transactional_id: str
    version: int
    """transaction.version: 1 or 2."""
    recorder: Recorder
    name: str
    random: Random
    wall_ms: Callable[[], int]
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[Partition, int] = field(default_factory=dict)
    lives: int = 0
    """How often it got a producer id; each is a session of its own to the history."""
    is_unsure: bool = False
    """Has a try of this operation gone unanswered?"""
    refusals: int = 0
    """How many times in a row it got an error to retry."""

    @property
    def identity(self) -> Identity:
        return self.producer_id, self.producer_epoch

    @property
    def session(self) -> str:
        return f"{self.name}/{self.lives}"

    @contextmanager
    def noted(self, operations: list[Operation], operation: Operation) -> Iterator[Pending[Operation]]:
        """An operation; if it is refused, and no earlier try of it went unanswered, it had no effect."""
        self.is_unsure = False
        pending = self.recorder.begin(operations, operation)
        try:
            yield pending
        except (Fenced, Aborts):
            pending.done(Outcome.UNKNOWN if self.is_unsure else Outcome.FAILED)
            raise

    def ask(self, message: Message, version: int) -> Generator[Question | int, Any, Any]:
        """The answer, sooner or later. Where that is never another, a client looks for its coordinator again: an
        administrator may have deleted the topic of all of them."""
        if self.refusals >= _MANY_REFUSALS:
            self.refusals = 0
            yield FindCoordinatorRequest(key=self.transactional_id, key_type=1), 2
        while True:
            answer = yield message, version
            if answer is not None:
                return answer
            self.is_unsure = True
            yield self.random.choice([1, 20, 200])

    def init(self) -> Generator[Question | int, Any, None]:
        self.lives += 1
        history = self.recorder.history
        started = Init(self.recorder.asked(), self.session, self.transactional_id, (-1, -1), TIMEOUT_MS)
        with self.noted(history.inits, started) as pending:
            while True:
                request = InitProducerIdRequest(
                    transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
                )
                answer = yield from self.ask(request, 5 if self.version == 2 else 4)
                if not answer.error_code:
                    break
                self.check(answer.error_code)
                yield 30
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            pending.done(identity=self.identity)
        self.sequences.clear()

    def check(self, code: int) -> bool:
        """True if the request must be sent again. Raises Fenced, Aborts."""
        error = ErrorCode(code)
        if error in _AGAIN:
            # Its partition may have gone to another node after the decision was logged, and before it was durable.
            self.is_unsure |= error is E.NOT_COORDINATOR
            self.refusals += 1
            return True
        self.refusals = 0
        if not error:
            return False
        if error is E.TRANSACTION_ABORTABLE:
            raise Aborts
        raise Fenced(error.name)

    def write(
        self, transaction: str, partition: Partition, value: bytes, source: tuple[Partition, int] | None = None
    ) -> Generator[Question | int, Any, None]:
        sequence = self.sequences.get(partition, 0)
        span = self.recorder.asked()
        send = Send(span, self.session, transaction, partition, value, self.identity, sequence, source=source)
        with self.noted(self.recorder.history.sends, send) as pending:
            if self.version == 1:
                yield from self._add(*partition)
            request = self._produce(partition, Record(0, 1, None, value), sequence)
            while True:
                answer = yield from self.ask(request, 12 if self.version == 2 else 11)
                found = answer.responses[0].partition_responses[0]
                if not self.check(found.error_code):
                    break
                yield 20
            pending.done(offset=found.base_offset, at_ms=self.wall_ms())
        self.sequences[partition] = sequence + 1

    def put(self, value: bytes) -> Generator[Question | int, Any, None]:
        """Set a key of the table or delete it. The history knows nothing of it: what becomes of it is compaction's."""
        sequence = self.sequences.get(TABLE, 0)
        if self.version == 1:
            yield from self._add(*TABLE)
        entry = Record(0, self.wall_ms(), self.random.choice(_TABLE_KEYS), self.random.choice([value, None]))
        request = self._produce(TABLE, entry, sequence)
        while True:
            answer = yield from self.ask(request, 12 if self.version == 2 else 11)
            if not self.check(answer.responses[0].partition_responses[0].error_code):
                break
            yield 20
        self.sequences[TABLE] = sequence + 1

    def _produce(self, partition: Partition, record: Record, sequence: int) -> ProduceRequest:
        batch = encode_batch(
            [record],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition[1], records=memoryview(batch))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=partition[0], partition_data=[data])],
        )

    def _add(self, topic: str, partition: int) -> Generator[Question | int, Any, None]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        while True:
            answer = yield from self.ask(request, 3)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if not self.check(result.partition_error_code):
                return
            yield 20

    def commit_offset(self, transaction: str, offset: int) -> Generator[Question | int, Any, None]:
        identity: Any = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        span = self.recorder.asked()
        sent = SendOffset(span, self.session, transaction, GROUP, INPUT, offset, self.identity)
        with self.noted(self.recorder.history.send_offsets, sent) as pending:
            if self.version == 1:
                adding = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, group_id=GROUP, **identity)
                while self.check((yield from self.ask(adding, 3)).error_code):
                    yield 20
            data = TxnOffsetCommitRequestPartition(partition_index=INPUT[1], committed_offset=offset)
            request = TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=GROUP,
                topics=[TxnOffsetCommitRequestTopic(name=INPUT[0], partitions=[data])],
                **identity,
            )
            while True:
                answer = yield from self.ask(request, 5 if self.version == 2 else 3)
                if not self.check(answer.topics[0].partitions[0].error_code):
                    break
                yield 20
            pending.done()

    def end(self, transaction: str, commit: bool) -> Generator[Question | int, Any, None]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            committed=commit,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )
        ending = End(self.recorder.asked(), self.session, transaction, commit, self.identity)
        with self.noted(self.recorder.history.ends, ending) as pending:
            while True:
                answer = yield from self.ask(request, 5 if self.version == 2 else 4)
                if not self.check(answer.error_code):
                    break
                yield 20
            if self.version == 2:
                self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
                self.sequences.clear()
            pending.done(next_identity=self.identity)


def find_coordinators(session: Session) -> Generator[Question | int, Any, None]:
    for kind in (0, 1):
        while (yield from session.ask(FindCoordinatorRequest(key=GROUP, key_type=kind), 2)).error_code:
            yield 50


def transfers(session: Session, count: int) -> Life:
    """Writes both legs of a transfer, or neither."""
    random = session.random
    yield from find_coordinators(session)
    yield from session.init()
    for number in range(count):
        transfer = f"{session.name}:{number}"
        try:
            for leg in random.sample(LEGS, len(LEGS)):
                yield from session.write(transfer, leg, f"{transfer}/{leg[1]}".encode())
                yield from session.put(transfer.encode())
                if random.random() < 0.1:
                    yield random.choice([50, TIMEOUT_MS * 2])
                if random.random() < 0.02:
                    return  # the client dies; the transaction is the coordinator's to end
            yield from session.end(transfer, commit=random.random() < 0.7)
        except Aborts:
            yield from session.end(transfer, commit=False)
        except Fenced:
            if random.random() < 0.5:
                return
            yield from session.init()


def processes(session: Session, count: int) -> Life:
    """Reads the input behind the committed offset, writes it to the output, commits the offset with it."""
    random = session.random
    yield from find_coordinators(session)
    yield from session.init()
    for number in range(count):
        step = f"{session.name}:{number}"
        try:
            offset = yield from committed_offset(session)
            found = yield from next_record(session, step, offset)
            if found is None:
                yield 50
                continue
            source, value = found
            yield from session.write(step, OUTPUT, value + f"|{step}".encode(), (INPUT, source))
            yield from session.commit_offset(step, source + 1)
            yield from session.end(step, commit=random.random() < 0.85)
        except Aborts:
            yield from session.end(step, commit=False)
        except Fenced:
            if random.random() < 0.5:
                return
            yield from session.init()


def committed_offset(session: Session) -> Generator[Question | int, Any, int]:
    recorder = session.recorder
    while True:
        # Each try is a look of its own: the one that is answered may be younger than the first.
        span = recorder.asked()
        answer = yield STABLE_OFFSET, 7
        if answer is not None and not answer.error_code:
            partition = answer.topics[0].partitions[0]
            if not partition.error_code:
                seen = OffsetFetch(span, GROUP, INPUT, partition.committed_offset)
                recorder.begin(recorder.history.offset_fetches, seen).done()
                return max(0, int(partition.committed_offset))
        yield 30


def next_record(
    session: Session, transaction: str, offset: int
) -> Generator[Question | int, Any, tuple[int, bytes] | None]:
    span = session.recorder.asked()
    answer = yield from session.ask(fetch(INPUT, offset), 11)
    # The first that is visible is all that it looks at.
    seen = read(answer, offset)[:1]
    note_bounds_of_fetch(session.recorder, span, INPUT, answer)
    next_offset = seen[0][0] + 1 if seen else offset
    poll = Poll(span, transaction, True, INPUT, offset, next_offset, tuple(seen), transaction)
    session.recorder.begin(session.recorder.history.polls, poll).done()
    return seen[0] if seen else None


def feeds(recorder: Recorder, random: Random, count: int, values: str = "input") -> Life:
    """An idempotent producer that fills the input."""
    producer_id = -1
    while producer_id < 0:
        answer = yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS), 4
        producer_id = answer.producer_id if answer is not None and not answer.error_code else -1
    for sequence in range(count):
        value = f"{values}-{sequence}".encode()
        batch = encode_batch(
            [Record(0, 1, None, value)], producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        send = Send(recorder.asked(), f"feeder of {values}", None, INPUT, value, (producer_id, 0), sequence)
        pending = recorder.begin(recorder.history.sends, send)
        offset = yield from produce(random, INPUT, batch)
        pending.done(offset=offset)
        yield from random.choice([look_by_fetch, look_by_list_offsets])(recorder, INPUT, offset)
        yield random.choice([0, 10, 60])


def reads(recorder: Recorder, random: Random, reader: str, partition: Partition, *, is_committed: bool = True) -> Life:
    """A reader that never forgets what it was shown."""
    offset = 0
    while True:
        span = recorder.asked()
        answer = yield fetch(partition, offset, is_committed=is_committed), 11
        if answer is None or answer.responses[0].partitions[0].error_code:
            yield 40
            continue
        next_offset = end_of(answer, offset)
        note_bounds_of_fetch(recorder, span, partition, answer)
        if next_offset > offset:
            seen = tuple(read(answer, offset))
            poll = Poll(span, reader, is_committed, partition, offset, next_offset, seen)
            recorder.begin(recorder.history.polls, poll).done()
            offset = next_offset
        yield random.choice([20, 200, 600])


def produce(random: Random, partition: Partition, batch: bytes) -> Generator[Question | int, Any, int]:
    """Asks until the batch is acknowledged, with acks=1 or all; returns its offset."""
    data = PartitionProduceData(index=partition[1], records=memoryview(batch))
    request = ProduceRequest(
        acks=random.choice([1, -1]),
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=partition[0], partition_data=[data])],
    )
    while True:
        answer = yield request, 9
        if answer is not None:
            found = answer.responses[0].partition_responses[0]
            if not found.error_code:
                return int(found.base_offset)
        yield random.choice([0, 10, 60])


def look_by_fetch(recorder: Recorder, partition: Partition, offset: int) -> Generator[Question | int, Any, None]:
    """Notes the bounds that a Fetch shows."""
    span = recorder.asked()
    answer = yield fetch(partition, offset, is_committed=False), 11
    if answer is not None:
        note_bounds_of_fetch(recorder, span, partition, answer)


def look_by_list_offsets(recorder: Recorder, partition: Partition, _: int) -> Generator[Question | int, Any, None]:
    span = recorder.asked()
    latest = ListOffsetsPartition(partition_index=partition[1], timestamp=_LATEST)
    answer = yield ListOffsetsRequest(topics=[ListOffsetsTopic(name=partition[0], partitions=[latest])]), 5
    if answer is not None:
        found = answer.topics[0].partitions[0]
        if not found.error_code:
            recorder.note_bounds(span, partition, high_watermark=found.offset)
            recorder.note_leader_epoch(span, partition, found.leader_epoch)


def note_bounds_of_fetch(recorder: Recorder, asked: Span, partition: Partition, answer: Any) -> None:
    data = answer.responses[0].partitions[0]
    if not data.error_code:
        recorder.note_bounds(asked, partition, data.log_start_offset, data.last_stable_offset, data.high_watermark)


def fetch(partition: Partition, offset: int, *, is_committed: bool = True) -> FetchRequest:
    wanted = FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=100_000,
        isolation_level=int(is_committed),
        session_epoch=-1,
        topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
    )


def end_of(answer: Any, offset: int) -> int:
    """Return the offset at which a reader continues."""
    records = answer.responses[0].partitions[0].records or b""
    return max((header.next_offset for header, _ in iter_batches(memoryview(records))), default=offset)


def read(answer: Any, from_offset: int) -> Sequence[tuple[int, bytes]]:
    """The records of an answer without those of aborted transactions, if it lists them: offset and value."""
    data = answer.responses[0].partitions[0]
    waiting = sorted((entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ())
    aborted: set[int] = set()
    found: list[tuple[int, bytes]] = []
    for header, batch in iter_batches(memoryview(data.records or b"")):
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            if decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [
                (record.offset, record.value or b"") for record in decode_records(batch) if record.offset >= from_offset
            ]
    return found
