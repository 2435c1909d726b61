"""A transactional producer of a conversation: every request of a transaction in any version, answers in short.

Owns: the bytes that are asked, and which part of an answer counts (error codes, epochs, whether a producer id is still
the same; no ids, no times). Does not own: what is asked when (`transaction_transcript`, `append_transcript`).
"""

from dataclasses import dataclass, replace
from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Asker, Broker, batch, counts, name, one_partition

TOPIC, GROUP = "written", "group"
TIMEOUT_MS = 60_000
PLAIN, VERIFIED, IMPLICIT = 8, 11, 12
"""Versions of Produce: before transactions are verified in full, with verification, adding its partitions by itself."""
_PAUSE_MS = 20
_LATEST = -1


class Conversation(Asker):
    """Whom one talks to. Batches carry `wall_ms`: a broker forgets producers whose last batch is old."""

    pause_ms = _PAUSE_MS
    """A broker may wait a moment for markers before it says "try again"."""

    def __init__(self, broker: Broker, wall_ms: int) -> None:
        super().__init__(broker)
        self.wall_ms = wall_ms

    def create_topic(self, name: str, partitions: int = 1) -> str:
        self.create_empty_topic(name, partitions)
        for partition in range(partitions):
            # A topic may be there before its partitions are.
            while self.produce(None, partition, topic=name, version=PLAIN)[0] != "NONE":
                self.broker.let_pass(100)
        return name

    def create_empty_topic(self, name: str, partitions: int, **fields: Any) -> None:
        topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1, **fields}]
        made = ("NONE", "TOPIC_ALREADY_EXISTS")  # the latter after a first try that took too long
        while self.ask("CreateTopics", 5, "topics.0.error_code", topics=topics, timeout_ms=10_000) not in made:
            self.broker.let_pass(100)

    def init(self, transactional_id: str | None, version: int = 4, **fields: Any) -> Any:
        """One InitProducerId as it is answered."""
        fields = {"transaction_timeout_ms": TIMEOUT_MS, **fields}
        return self.ask("InitProducerId", version, transactional_id=transactional_id, **fields)

    def started(self, transactional_id: str | None, **fields: Any) -> "Producer":
        """A producer that is ready to go, however often it has to ask."""
        answer = self.init(transactional_id, **fields)
        while ErrorCode(answer.error_code).retriable:
            self.broker.let_pass(_PAUSE_MS)
            answer = self.init(transactional_id, **fields)
        if answer.error_code:
            raise AssertionError(name(answer.error_code))
        return Producer(self, transactional_id or "", answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        producer: "Producer | None",
        partition: int = 0,
        *,
        topic: str = TOPIC,
        sequence: int = 0,
        count: int = 1,
        version: int = VERIFIED,
        transactional: bool = True,
    ) -> tuple[str, int]:
        """Error and base offset."""
        identity: dict[str, Any] = {}
        if producer is not None:
            identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
            identity |= {"base_sequence": sequence, "transactional": transactional}
        data = [{"index": partition, "records": batch(count, self.wall_ms, **identity)}]
        transactional_id = producer.transactional_id if producer is not None and transactional else None
        return self.produce_data([{"name": topic, "partition_data": data}], version, transactional_id)

    def produce_data(self, topics: Any, version: int, transactional_id: str | None = None) -> tuple[str, int]:
        """One Produce about one partition: error and base offset."""
        fields = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 10_000, "topic_data": topics}
        answer = self.ask("Produce", version, **fields).responses[0].partition_responses[0]
        return name(answer.error_code), answer.base_offset

    def described(self, transactional_id: str) -> Any:
        return self.ask("DescribeTransactions", 0, transactional_ids=[transactional_id]).transaction_states[0]

    def settled(self, transactional_id: str) -> str:
        """State, epoch and number of partitions of a transactional id, once no markers are on their way."""
        while (state := self.described(transactional_id)).transaction_state.startswith("Prepare"):
            self.broker.let_pass(_PAUSE_MS)
        if state.error_code:
            return name(state.error_code)
        count = sum(len(topic.partitions) for topic in state.topics)
        return f"{state.transaction_state}, epoch {state.producer_epoch}, {count} partitions"

    def producers(self, topic: str, partition: int = 0) -> Any:
        """DescribeProducers of one partition."""
        return self.ask("DescribeProducers", 0, "topics.0.partitions.0", topics=[(topic, [partition])])


@dataclass(frozen=True, slots=True)
class Producer:
    """A pair that claims to be the producer of a transactional id; each method is one request."""

    talk: Conversation
    transactional_id: str
    producer_id: int
    producer_epoch: int

    def but(self, **changes: Any) -> "Producer":
        return replace(self, **changes)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def pair(self, answer: Any) -> tuple[str, str, int]:
        """Error, producer id as it is to ours, and epoch of an answer that has them."""
        given = {self.producer_id: "same id", -1: "no id"}.get(answer.producer_id, "another id")
        return name(answer.error_code), given, answer.producer_epoch

    def resume(self, version: int = 4) -> tuple[str, str, int]:
        """InitProducerId with the pair (KIP-360)."""
        fields = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        return self.pair(self.talk.init(self.transactional_id, version, **fields))

    def renew(self, version: int = 4) -> tuple[str, str, int]:
        """InitProducerId without it, as a new instance does."""
        return self.pair(self.talk.init(self.transactional_id, version))

    def add(self, *partitions: int, version: int = 3, topic: str = TOPIC, unknown: str | None = None) -> list[str]:
        topics = [(topic, partitions)] + [(unknown, [0])] * (unknown is not None)
        identity = {f"v3_and_below_{field}": value for field, value in self.identity.items()}
        answer = self.talk.ask("AddPartitionsToTxn", version, v3_and_below_topics=topics, **identity)
        return _errors(answer, "results_by_topic_v3_and_below")

    def add_batched(self, *partitions: int, version: int = 5, verify_only: bool = False, topic: str = TOPIC) -> Any:
        transaction = {**self.identity, "topics": [(topic, partitions)], "verify_only": verify_only}
        answer = self.talk.ask("AddPartitionsToTxn", version, transactions=[transaction])
        return name(answer.error_code), [_errors(result, "topic_results") for result in answer.results_by_transaction]

    def add_offsets(self, version: int = 3, group_id: str = GROUP) -> str:
        error: str = self.talk.ask("AddOffsetsToTxn", version, "error_code", group_id=group_id, **self.identity)
        return error

    def commit_offset(self, version: int = 3, *, topic: str = TOPIC, group_id: str = GROUP, **member: Any) -> str:
        """One TxnOffsetCommit."""
        topics = one_partition(topic, committed_offset=7)
        fields = {**self.identity, **member, "group_id": group_id, "topics": topics}
        error: str = self.talk.ask("TxnOffsetCommit", version, "topics.0.partitions.0.error_code", **fields)
        return error

    def produce(self, partition: int = 0, **how: Any) -> tuple[str, int]:
        return self.talk.produce(self, partition, **how)

    def write(self, partition: int = 0, **how: Any) -> str:
        """Produce, where only the error counts."""
        return self.produce(partition, **how)[0]

    def end(self, commit: bool, version: int = 3) -> Any:
        """EndTxn; from version 5 on with the pair that it answers."""
        answer = self.talk.ask("EndTxn", version, committed=commit, **self.identity)
        return self.pair(answer) if version >= 5 else name(answer.error_code)

    def ended(self, commit: bool, version: int = 3) -> "Producer":
        """End the transaction, which must work; return the producer with the identity for the next one."""
        answer = self.talk.ask("EndTxn", version, committed=commit, **self.identity)
        if answer.error_code:
            raise AssertionError(name(answer.error_code))
        self.talk.settled(self.transactional_id)
        if version < 5:
            return self
        return self.but(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    def settled(self) -> str:
        return self.talk.settled(self.transactional_id)


def ends(talk: Conversation, topic: str) -> tuple[int, ...]:
    """High watermark and last stable offset."""
    topics = one_partition(topic, timestamp=_LATEST)
    fields = {"replica_id": -1, "topics": topics}
    shape = "topics.0.partitions.0.offset"
    return tuple(talk.ask("ListOffsets", 7, shape, isolation_level=level, **fields) for level in (0, 1))


def _errors(answer: Any, field: str) -> list[str]:
    """The errors in order of topics and partitions: Kafka answers in the order of a hash table."""
    found = counts(answer, f"{field}/results_by_partition{{name partition_index partition_error_code}}")
    return [error for _, _, error in found]
