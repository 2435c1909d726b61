"""The same Produce twice, byte for byte, and the broker's response to the second.

Owns: the demonstration of idempotence (KIP-98): the same producer id, epoch and sequence return the first offset again,
and the log does not grow. The record is a real purchase, so a duplicate would corrupt the totals.
"""

from dataclasses import dataclass

from oncelog.client import Producer, TopicPartition


@dataclass(frozen=True, slots=True)
class DuplicateAnswers:
    """The offsets in the responses to the two copies of a batch."""

    first_offset: int
    second_offset: int


async def send_twice(bootstrap: str, partition: TopicPartition, key: bytes, value: bytes) -> DuplicateAnswers:
    """Write one record, then the identical batch again. Raises KafkaError."""
    async with Producer(bootstrap, enable_idempotence=True) as producer:
        first = await producer.send(partition.topic, value, key=key, partition=partition.partition)
        second = await producer.resend_last_batch(partition.topic, partition.partition)
    return DuplicateAnswers(first.offset, second.offset)
