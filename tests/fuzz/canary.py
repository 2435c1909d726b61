"""A good client beside the bad ones: it knows, byte for byte, which answers it must get.

Owns: a topic and a group that no other client names, and what is in them.
"""

from collections.abc import Callable
from importlib import import_module
from random import Random
from typing import Any, Protocol

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.support.requests.frame_shapes import contents, framed

TOPIC, GROUP = "canary", "canary-group"
CAGE, _CAGE_CODEC = "canary-in-lz4", "lz4"
"""A topic on which the broker encodes again what it is sent."""
_LOOK_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_PRODUCE, _FETCH, _COMMIT, _FETCH_OFFSETS = 8, 11, 7, 7


class Asked(Protocol):
    """A connection that takes bytes, and gives the answers that it got."""

    def send(self, data: bytes) -> None: ...

    def answers(self) -> list[Any]: ...


def frame_of(request: Message, version: int, correlation_id: int, client_id: str = "canary") -> bytes:
    """A whole frame, with its length."""
    module = import_module(type(request).__module__)
    flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
    header = encode_request_header(module.API_KEY, version, correlation_id, client_id, flexible)
    body = b"".join((header, *module.encode(request, version)))
    return len(body).to_bytes(4, "big") + body


class Canary:
    def __init__(self) -> None:
        self._correlation_id = 1_000_000
        self._frames = Random(0)
        self._producer: tuple[int, int] | None = None
        self._batches: list[bytes] = []

    def ask(self, client: Asked, settle: Callable[[], None]) -> None:
        """Write one record, read it and an earlier one back, commit and fetch an offset. AssertionError otherwise."""
        if self._producer is None:
            # Its records have a fixed time, long ago on the clock of a real broker.
            for_ever = CreatableTopicConfig(name="retention.ms", value="-1")
            again = CreatableTopicConfig(name="compression.type", value=_CAGE_CODEC)
            for name, configs in ((TOPIC, [for_ever]), (CAGE, [for_ever, again])):
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
                created = self._one(client, settle, CreateTopicsRequest(topics=[topic]), 4)
                assert created.topics[0].error_code == 0, created
            found = self._one(client, settle, FindCoordinatorRequest(key=GROUP, key_type=0), 3)
            assert found.error_code == 0, found
            identity = self._one(client, settle, InitProducerIdRequest(transactional_id=None), 1)
            assert identity.error_code == 0, identity
            self._producer = identity.producer_id, identity.producer_epoch
        self._write(client, settle)
        for offset in {len(self._batches) - 1, len(self._batches) // 2}:
            self._read(client, settle, offset)
        self._encode_again(client, settle)
        self._commit(client, settle)

    def _encode_again(self, client: Asked, settle: Callable[[], None]) -> None:
        """Write a batch in several frames, and read every record of it back."""
        records = [Record(0, 1_700_000_000_000, b"canary", b"%d" % number) for number in range(9)]
        batch = framed(("zstd", "gzip", "snappy")[len(self._batches) % 3], records, self._frames)
        data = TopicProduceData(name=CAGE, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[data])
        (written,) = self._one(client, settle, request, _PRODUCE).responses[0].partition_responses
        assert written.error_code == 0, written
        wanted = FetchPartition(partition=0, fetch_offset=written.base_offset, partition_max_bytes=1)
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=CAGE, partitions=[wanted])]
        )
        read = self._one(client, settle, fetch, _FETCH).responses[0].partitions[0].records
        assert contents(read) == contents(batch) is not None, "a batch in several frames is not what was sent"

    def _one(self, client: Asked, settle: Callable[[], None], request: Message, version: int) -> Any:
        self._correlation_id += 1
        client.send(frame_of(request, version, self._correlation_id))
        settle()
        answers = client.answers()
        assert len(answers) == 1, f"{len(answers)} answers to one {type(request).__name__}"
        return answers[0]

    def _write(self, client: Asked, settle: Callable[[], None]) -> None:
        producer_id, producer_epoch = self._producer or (-1, -1)
        count = len(self._batches)
        record = Record(0, 1_700_000_000_000, b"canary", b"%d" % count)
        batch = encode_batch([record], producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=count)
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        # The same twice: a duplicate is answered with its original's offset, whatever others did in between.
        for _ in range(2):
            request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[data])
            expected = ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=TOPIC,
                        partition_responses=[PartitionProduceResponse(index=0, base_offset=count, log_start_offset=0)],
                    )
                ]
            )
            answer = self._one(client, settle, request, _PRODUCE)
            assert answer == expected, f"{answer} instead of {expected}"
        self._batches.append(batch)

    def _read(self, client: Asked, settle: Callable[[], None], offset: int) -> None:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
        )
        (topic,) = self._one(client, settle, request, _FETCH).responses
        (partition,) = topic.partitions
        assert (partition.error_code, partition.high_watermark) == (0, len(self._batches)), partition
        records = bytes(partition.records)
        # Base offset and leader epoch are the broker's; all else is what was written.
        assert int.from_bytes(records[:8], "big") == offset
        assert records[8:12] + records[16:] == self._batches[offset][8:12] + self._batches[offset][16:]

    def _commit(self, client: Asked, settle: Callable[[], None]) -> None:
        offset = len(self._batches)
        kept = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        commit = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[kept])])
        answer = self._one(client, settle, commit, _COMMIT)
        if answer.topics[0].partitions[0].error_code in _LOOK_AGAIN:  # another client has deleted __consumer_offsets
            self._one(client, settle, FindCoordinatorRequest(key=GROUP, key_type=0), 3)
            answer = self._one(client, settle, commit, _COMMIT)
        assert answer.topics[0].partitions[0].error_code == 0, answer
        fetch = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])])
        answer = self._one(client, settle, fetch, _FETCH_OFFSETS)
        assert answer.topics[0].partitions[0].committed_offset == offset, answer
