"""OffsetCommit (8), versions 2–10: offsets of a group, from a member of its generation or, in an empty group, anyone.

- Each partition has its own result, once durable: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE
  (`offset.metadata.max.bytes`, in characters, as in Kafka). UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID
  and REBALANCE_IN_PROGRESS apply to all of them; a missing group has no generation: GROUP_ID_NOT_FOUND (v9+).
- In a consumer group (KIP-848) the generation is the member epoch: STALE_MEMBER_EPOCH (v9+, below UNSUPPORTED_VERSION),
  for each partition that the member has not owned since that epoch; ILLEGAL_GENERATION for members of the classic
  protocol.
- v2–4 may set a retention, which then replaces the broker's (KIP-211).
- The empty group id is a group like any other, for old clients that never set one.
- A commit from a member in a running generation counts as a heartbeat.
- v10 names topics by their ids: UNKNOWN_TOPIC_ID.
- A large request is committed in several parts, each durable by itself, where Kafka rejects more than fits in one
  batch.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from oncelog.broker.coordinator.group.engine.kind import CommitErrors, Committer
from oncelog.broker.handlers.shared.asked_topics import asked_topic, names_by_id
from oncelog.broker.handlers.shared.offsets_to_commit import commit_in_slices, offsets_to_commit, settle_errors
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from oncelog.protocol.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_MEMBER_EPOCHS_SINCE = 9


def handle(context: RequestContext, request: OffsetCommitRequest) -> Completion[OffsetCommitResponse]:
    by_id = names_by_id(context)
    wanted = [_resolve_name(context, topic) for topic in request.topics] if by_id else request.topics
    offsets, unknown = offsets_to_commit(context.broker.topics, wanted, by_id=by_id)
    committed = context.broker.groups.offsets.commit(_committer(context, request), offsets, request.retention_time_ms)
    return settle_errors(committed, offsets, unknown, _same).map(
        lambda errors: OffsetCommitResponse(topics=[_answer(topic, errors) for topic in wanted])
    )


def handle_large(context: RequestContext, request: OffsetCommitRequest) -> Any:
    return context.run(_handle_in_slices(context, request))


def _handle_in_slices(context: RequestContext, request: OffsetCommitRequest) -> Sliced[OffsetCommitResponse]:
    topics, offsets = context.broker.topics, context.broker.groups.offsets
    by_id = names_by_id(context)
    wanted: Sequence[OffsetCommitRequestTopic] = request.topics
    if by_id:
        wanted = yield from each(request.topics, partial(_resolve_name, context))
    committer = _committer(context, request)
    errors = yield from commit_in_slices(
        topics,
        wanted,
        lambda some: offsets.commit(committer, some, request.retention_time_ms),
        _same,
        by_id=by_id,
    )
    answers = []
    for topic in wanted:
        answers.append(_answer(topic, errors))
        yield 1 + len(topic.partitions)
    return OffsetCommitResponse(topics=answers)


def _committer(context: RequestContext, request: OffsetCommitRequest) -> Committer:
    return Committer(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_member_epochs=context.api_version >= _MEMBER_EPOCHS_SINCE,
    )


def _same(error: ErrorCode) -> ErrorCode:
    return error


def _resolve_name(context: RequestContext, wanted: OffsetCommitRequestTopic) -> OffsetCommitRequestTopic:
    """Return the topic by its name; an unknown one by its id, which is not a legal name."""
    name = asked_topic(context, wanted) or f"{wanted.topic_id}?"
    return OffsetCommitRequestTopic(name=name, topic_id=wanted.topic_id, partitions=wanted.partitions)


def _answer(topic: OffsetCommitRequestTopic, errors: CommitErrors) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=data.partition_index, error_code=errors[topic.name, data.partition_index]
            )
            for data in topic.partitions
        ],
    )
