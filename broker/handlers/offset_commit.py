"""OffsetCommit (8), versions 2–9: offsets of a group, from a member of its generation or, in an empty group, anybody.

- Each partition is answered on its own, once durable: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE
  (`offset.metadata.max.bytes`); UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
  FENCED_INSTANCE_ID and REBALANCE_IN_PROGRESS for all of them.
- The retention of v2 to v4 is ignored, as in Kafka since 2.1: offsets expire with their group (KIP-211).

Left out: v10 (topic ids).
"""

from broker.completion import Completion
from broker.coordinator.group.offsets import Committer, Errors
from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.offset_commit_request import OffsetCommitRequest
from protocol.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(context: RequestContext, request: OffsetCommitRequest) -> Completion[OffsetCommitResponse]:
    topics = context.broker.topics
    errors: Errors = {}
    offsets = []
    for topic in request.topics:
        for data in topic.partitions:
            partition = (topic.name, data.partition_index)
            if topics.leader_of(*partition) is None:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                metadata = data.committed_metadata or ""
                offsets.append((partition, data.committed_offset, data.committed_leader_epoch, metadata))
    committer = Committer(
        request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    )
    answer: Completion[OffsetCommitResponse] = Completion()

    def on_done(done: Completion[Errors]) -> None:
        if done.error is None:
            errors.update(done.result())
        elif isinstance(done.error, KafkaError):
            errors.update({partition: done.error.code for partition, *_ in offsets})
        else:
            answer.fail(done.error)
            return
        answer.complete(_respond(request, errors))

    context.broker.groups.offsets.commit(committer, offsets).then(on_done)
    return answer


def _respond(request: OffsetCommitRequest, errors: Errors) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=data.partition_index, error_code=errors[topic.name, data.partition_index]
                    )
                    for data in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
