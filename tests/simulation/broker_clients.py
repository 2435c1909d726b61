"""Clients of the simulated broker, as generators: they yield a request with its version and get the answer, or None.

Owns: what each client does and notes down of what it was told (`Ledger`). None means that no answer came in time: the
request may or may not have been carried out. A client asks again as Kafka's own clients do: the same request, until an
answer comes.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.generated.end_txn_request import EndTxnRequest
from protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from protocol.generated.find_coordinator_request import FindCoordinatorRequest
from protocol.generated.init_producer_id_request import InitProducerIdRequest
from protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.message import Message
from protocol.records.batch import encode_batch, iter_batches
from protocol.records.control import ControlRecordType, decode_end_txn_marker
from protocol.records.record import Record, decode_records

Question = tuple[Message, int]
Life = Generator[Question | int, Any, None]
"""Yields a question, or a number of milliseconds to wait."""
E = ErrorCode
TIMEOUT_MS = 3_000
LEDGER_TOPIC, INPUT, OUTPUT, GROUP = "ledger", "input", "output", "group"
PARTITIONS = 2
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


class Fenced(Exception):
    """A newer producer has taken the transactional id, or the coordinator has ended the transaction."""


class Aborts(Exception):
    """This transaction must be aborted; the producer may go on."""


@dataclass
class Ledger:
    """What clients were told."""

    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    epochs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The newest producer id and epoch that InitProducerId has answered, by transactional id."""
    late_commits: list[str] = field(default_factory=list)
    """Commits told to a producer that was known to be fenced before he asked."""
    plain: set[str] = field(default_factory=set)
    inputs: int = 0


@dataclass
class Session:
    """One incarnation of a transactional producer."""

    transactional_id: str
    version: int
    """transaction.version: 1 or 2."""
    ledger: Ledger
    random: Random
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def ask(self, message: Message, version: int) -> Generator[Question | int, Any, Any]:
        """The answer, sooner or later."""
        while True:
            answer = yield message, version
            if answer is not None:
                return answer
            yield self.random.choice([1, 20, 200])

    def init(self) -> Generator[Question | int, Any, None]:
        while True:
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
            answer = yield from self.ask(request, 5 if self.version == 2 else 4)
            if not answer.error_code:
                break
            self.check(answer.error_code)
            yield 30
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        known = self.ledger.epochs.get(self.transactional_id, (-1, -1))
        self.ledger.epochs[self.transactional_id] = max(known, (self.producer_id, self.producer_epoch))
        self.sequences.clear()

    def check(self, code: int) -> bool:
        """True if the request must be sent again. Raises Fenced, Aborts."""
        error = ErrorCode(code)
        if not error:
            return False
        if error in _AGAIN:
            return True
        if error is E.TRANSACTION_ABORTABLE:
            raise Aborts
        raise Fenced(error.name)

    def write(self, topic: str, partition: int, value: bytes) -> Generator[Question | int, Any, None]:
        sequence = self.sequences.get((topic, partition), 0)
        batch = encode_batch(
            [Record(0, 1, None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        if self.version == 1:
            yield from self._add(topic, partition)
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        while True:
            answer = yield from self.ask(request, 12 if self.version == 2 else 11)
            if not self.check(answer.responses[0].partition_responses[0].error_code):
                break
            yield 20
        self.sequences[topic, partition] = sequence + 1

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

    def commit_offset(self, offset: int) -> Generator[Question | int, Any, None]:
        identity = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        if self.version == 1:
            adding = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, group_id=GROUP, **identity)
            while self.check((yield from self.ask(adding, 3)).error_code):
                yield 20
        data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            topics=[TxnOffsetCommitRequestTopic(name=INPUT, partitions=[data])],
            **identity,
        )
        while True:
            answer = yield from self.ask(request, 5 if self.version == 2 else 3)
            if not self.check(answer.topics[0].partitions[0].error_code):
                return
            yield 20

    def end(self, name: str, commit: bool) -> Generator[Question | int, Any, None]:
        was_fenced = (self.producer_id, self.producer_epoch) < self.ledger.epochs[self.transactional_id]
        identity = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        request = EndTxnRequest(transactional_id=self.transactional_id, committed=commit, **identity)
        while True:
            answer = yield from self.ask(request, 5 if self.version == 2 else 4)
            if not self.check(answer.error_code):
                break
            yield 20
        if commit:
            self.ledger.committed.add(name)
        else:
            self.ledger.aborted.add(name)
        if self.version == 2:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        if commit and was_fenced and self.version == 1:
            self.ledger.late_commits.append(name)


def find_coordinators(session: Session) -> Generator[Question | int, Any, None]:
    for kind in (0, 1):
        while (yield from session.ask(FindCoordinatorRequest(key=GROUP, key_type=kind), 2)).error_code:
            yield 50


def transfers(session: Session, name: str, count: int) -> Life:
    """Writes both legs of a transfer, or neither."""
    random, ledger = session.random, session.ledger
    yield from find_coordinators(session)
    yield from session.init()
    for number in range(count):
        transfer = f"{name}:{number}"
        ledger.begun.add(transfer)
        try:
            for partition in random.sample(range(PARTITIONS), PARTITIONS):
                yield from session.write(LEDGER_TOPIC, partition, transfer.encode())
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


def processes(session: Session, name: str, count: int) -> Life:
    """Reads the input behind the committed offset, writes it to the output, commits the offset with it."""
    random = session.random
    yield from find_coordinators(session)
    yield from session.init()
    for number in range(count):
        step = f"{name}:{number}"
        try:
            offset = yield from committed_offset(session)
            record, next_offset = yield from next_record(session, offset)
            if record is None:
                yield 50
                continue
            yield from session.write(OUTPUT, 0, record)
            yield from session.commit_offset(next_offset)
            yield from session.end(step, commit=random.random() < 0.85)
        except Aborts:
            yield from session.end(step, commit=False)
        except Fenced:
            if random.random() < 0.5:
                return
            yield from session.init()


def committed_offset(session: Session) -> Generator[Question | int, Any, int]:
    request = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name=INPUT, partition_indexes=[0])], require_stable=True
    )
    while True:
        answer = yield from session.ask(request, 7)
        if not answer.error_code:
            partition = answer.topics[0].partitions[0]
            if not partition.error_code:
                return max(0, partition.committed_offset)
        yield 30


def next_record(session: Session, offset: int) -> Generator[Question | int, Any, tuple[bytes | None, int]]:
    answer = yield from session.ask(fetch(INPUT, 0, offset), 11)
    for number, value in read(answer, offset):
        return value, number + 1
    return None, offset


def feeds(ledger: Ledger, random: Random, count: int) -> Life:
    """An idempotent producer that fills the input."""
    producer_id = -1
    sequence = 0
    while sequence < count:
        if producer_id < 0:
            answer = yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS), 4
            producer_id = answer.producer_id if answer is not None and not answer.error_code else -1
            continue
        batch = encode_batch(
            [Record(0, 1, None, b"input-%d" % sequence)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topic = TopicProduceData(name=INPUT, partition_data=[data])
        answer = yield ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            ledger.inputs = sequence = sequence + 1
        yield random.choice([0, 10, 60])


def reads(seen: list[tuple[int, bytes]], topic: str, partition: int) -> Life:
    """A read_committed reader that never forgets what it was shown."""
    offset = 0
    while True:
        answer = yield fetch(topic, partition, offset), 11
        if answer is None or answer.responses[0].partitions[0].error_code:
            yield 40
            continue
        records = answer.responses[0].partitions[0].records or b""
        seen += read(answer, offset)
        for header, _ in iter_batches(memoryview(records)):
            offset = max(offset, header.next_offset)
        yield 40


def fetch(topic: str, partition: int, offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=100_000,
        isolation_level=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def read(answer: Any, from_offset: int) -> Sequence[tuple[int, bytes]]:
    """The committed records of an answer: offset and value."""
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
