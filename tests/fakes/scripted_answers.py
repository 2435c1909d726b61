"""What a broker says whose one topic has one partition, as a ScriptedBroker takes it."""

from typing import Any

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from oncelog.protocol.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from oncelog.protocol.generated.end_txn_response import EndTxnResponse
from oncelog.protocol.generated.find_coordinator_response import FindCoordinatorResponse
from oncelog.protocol.generated.heartbeat_response import HeartbeatResponse
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from oncelog.protocol.generated.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from oncelog.protocol.generated.list_offsets_response import ListOffsetsResponse
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog.protocol.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.protocol.generated.sync_group_response import SyncGroupResponse
from oncelog.protocol.generated.txn_offset_commit_response import TxnOffsetCommitResponse
from tests.fakes.virtual_loop import Answers

TOPIC = "topic"


def metadata(_: Any) -> MetadataResponse:
    topic = MetadataResponseTopic(name=TOPIC, partitions=[MetadataResponsePartition(partition_index=0, leader_id=0)])
    return MetadataResponse(brokers=[MetadataResponseBroker(0, "host", 1)], topics=[topic])


def join(request: Any) -> JoinGroupResponse:
    mine = JoinGroupResponseMember(member_id="member", metadata=request.protocols[0].metadata)
    return JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name=request.protocols[0].name,
        leader="member",
        member_id="member",
        members=[mine],
    )


def sync(request: Any) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=request.assignments[0].assignment)


def offset_fetch(request: Any) -> OffsetFetchResponse:
    found = OffsetFetchResponsePartitions(partition_index=0, committed_offset=0)
    topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=[found])]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=topics)])


def produce(request: Any) -> ProduceResponse:
    written = [PartitionProduceResponse(index=0, base_offset=0)]
    return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=written)])


def add_partitions(_: Any) -> AddPartitionsToTxnResponse:
    added = AddPartitionsToTxnPartitionResult(partition_index=0)
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=[added])
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


ANY: Answers = {
    ApiKey.METADATA: metadata,
    ApiKey.FIND_COORDINATOR: lambda _: FindCoordinatorResponse(node_id=0, host="host", port=1),
}
OF_A_MEMBER: Answers = {
    **ANY,
    ApiKey.JOIN_GROUP: join,
    ApiKey.SYNC_GROUP: sync,
    ApiKey.HEARTBEAT: lambda _: HeartbeatResponse(),
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FETCH: lambda _: None,
    ApiKey.LIST_OFFSETS: lambda _: ListOffsetsResponse(),
}
OF_A_PRODUCER: Answers = {
    **ANY,
    ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0),
    ApiKey.PRODUCE: produce,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda _: AddOffsetsToTxnResponse(),
    ApiKey.TXN_OFFSET_COMMIT: lambda _: TxnOffsetCommitResponse(),
    ApiKey.END_TXN: lambda _: EndTxnResponse(),
}
