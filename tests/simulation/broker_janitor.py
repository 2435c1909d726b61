"""An administrator in simulation: creates and deletes topics, and tries to delete `__transaction_state` too.

Owns: what it asks for, and that an idempotent producer continues where a topic is made again. That no transaction hangs
for it, and that the metadata with its snapshots survives every stop meanwhile, is what the auditor and the start itself
demand.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.simulated import Life, Question
from tests.simulation.log_auditor import AuditError

STATE = "__transaction_state"


def tidies(random: Random, count: int) -> Life:
    for number in range(count):
        name = f"temporary-{number}"
        wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        yield from _until(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5, ErrorCode.TOPIC_ALREADY_EXISTS)
        yield random.choice([0, 50, 400])
        yield from _until(_deletion(name), 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Refused while a transaction is open; otherwise every id is forgotten, and the topic comes with the next need.
        yield _deletion(STATE), 5
        yield from _until(FindCoordinatorRequest(key="any", key_type=1), 2, ErrorCode.NONE)
        yield random.choice([100, 500, 1_500])


def makes_again(random: Random, count: int, *, is_exact: bool) -> Life:
    """A topic goes and comes while an idempotent producer writes to it, in any version of Produce: to the new partition
    the producer is unknown, and its next sequence is taken. `is_exact`: no request arrives late, such as a deletion, or
    a batch that the partition of before has."""
    name = "again"
    given = yield from _until(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4, ErrorCode.NONE
    )
    sequence = 0
    for _ in range(count):
        wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        creation = CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5, ErrorCode.TOPIC_ALREADY_EXISTS
        created = yield from _until(*creation)
        # Or the one before, whose deletion is not durable yet.
        is_new = created.topics[0].error_code == ErrorCode.NONE
        for _ in range(random.randint(1, 3)):
            while not (yield from _write(name, given, sequence, random.randint(3, 12), is_exact, is_new)):
                yield from _until(*creation)
            sequence += 1
        yield from _until(_deletion(name), 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        yield random.choice([100, 500, 1_500])


def _write(
    name: str, given: Any, sequence: int, version: int, is_exact: bool, is_new: bool
) -> Generator[Question | int, Any, bool]:
    """Produce the batch until it is accepted; return False if the topic has to be created first."""
    batch = encode_batch(
        [Record(0, 1, None, b"value")],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=sequence,
    )
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topics = [TopicProduceData(name=name, partition_data=[data])]
    while True:
        answer = yield ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), version
        if answer is not None:
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_exact:
                raise AuditError(f"sequence {sequence} of an idempotent producer is refused by Produce {version}")
            is_late = code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code is ErrorCode.NONE or (is_late and not is_exact):
                return True
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_new:
                return False
        yield 30


def _deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000)


def _until(request: Any, version: int, done_before: ErrorCode) -> Generator[Question | int, Any, Any]:
    """Ask until it is done and return the response; `done_before` is the error of a retry whose first response was
    lost.
    """
    while True:
        answer = yield request, version
        if answer is not None:
            results = getattr(answer, "topics", None) or getattr(answer, "responses", None) or [answer]
            if results[0].error_code in (ErrorCode.NONE, done_before):
                return answer
        yield 30
