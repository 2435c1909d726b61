"""The same Produce twice, byte for byte, and what the broker answers to the second.

Owns: the demonstration of idempotence (KIP-98): same producer id, epoch and sequence give the first offset again, and
the log does not grow. The record is a real purchase, so a duplicate would spoil the totals.
"""

from dataclasses import dataclass

from client.cluster import Cluster
from client.errors import error_of
from client.records import TopicPartition
from protocol.generated.init_producer_id_request import InitProducerIdRequest
from protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import encode_batch
from protocol.records.record import Record

_TIMEOUT_MS = 10_000
_NO_TRANSACTION_TIMEOUT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DuplicateAnswers:
    """The base offset that each of the two sendings was answered with."""

    first_offset: int
    second_offset: int


async def send_twice(
    bootstrap: str, partition: TopicPartition, key: bytes, value: bytes, timestamp_ms: int
) -> DuplicateAnswers:
    """Write one record, then the very same request again. Raises KafkaError."""
    cluster = Cluster(bootstrap, client_id="oncelog-duplicate", request_timeout_ms=_TIMEOUT_MS)
    try:
        await cluster.refresh([partition.topic])
        node_id = await cluster.leader(partition)
        identity = await cluster.request(
            node_id,
            "init_producer_id",
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT),
        )
        if identity.error_code:
            raise error_of(identity.error_code, "InitProducerId")
        batch = encode_batch(
            [Record(0, timestamp_ms, key, value)],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
        )
        entry = PartitionProduceData(index=partition.partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[entry])],
        )
        offsets = []
        for _ in range(2):
            answer = await cluster.request(node_id, "produce", request)
            (result,) = answer.responses[0].partition_responses
            if result.error_code:
                raise error_of(result.error_code, f"Produce to {partition}")
            offsets.append(result.base_offset)
        return DuplicateAnswers(*offsets)
    finally:
        cluster.close()
