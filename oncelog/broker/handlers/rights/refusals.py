"""Responses to requests that are refused as a whole, where they are more than an error in each row.

Owns: their form, as the error responses of Kafka's requests. Does not own: when (`broker.handlers.rights.checks`).
"""

from typing import Any

from oncelog.broker.apis.administration import missing_text
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.acls import AclOperation
from oncelog.protocol.errors import ErrorCode

_ERROR = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def not_joined(context: RequestContext, _: Any) -> Any:
    """Refuse a JoinGroup: before v7 the protocol name may not be null."""
    from oncelog.protocol.generated.join_group_response import JoinGroupResponse

    return JoinGroupResponse(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        generation_id=-1,
        protocol_name=None if context.api_version >= 7 else "",
    )


def not_moved(_: RequestContext, request: Any) -> Any:
    """Refuse AlterReplicaLogDirs, with the topics of all directories."""
    from oncelog.protocol.generated.alter_replica_log_dirs_response import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )

    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_ERROR)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def no_election(_: RequestContext, request: Any) -> Any:
    """Refuse ElectLeaders, with the error of the whole and of each partition."""
    from oncelog.protocol.generated.elect_leaders_response import (
        ElectLeadersResponse,
        PartitionResult,
        ReplicaElectionResult,
    )

    text = missing_text(AclOperation.ALTER)
    return ElectLeadersResponse(
        error_code=_ERROR,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=_ERROR, error_message=text)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def users_not_altered(_: RequestContext, request: Any) -> Any:
    """Refuse AlterUserScramCredentials, with each user once."""
    from oncelog.protocol.generated.alter_user_scram_credentials_response import (
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
    )

    users = sorted({change.name for change in (*request.deletions, *request.upsertions)})
    text = missing_text(AclOperation.ALTER)
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=_ERROR, error_message=text) for user in users]
    )


def not_reassigned(_: RequestContext, request: Any) -> Any:
    """Refuse AlterPartitionReassignments, with the error of the whole and of each partition."""
    from oncelog.protocol.generated.alter_partition_reassignments_response import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    error: dict[str, Any] = {"error_code": _ERROR, "error_message": missing_text(AclOperation.ALTER)}
    return AlterPartitionReassignmentsResponse(
        **error,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(partition_index=partition.partition_index, **error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def no_reassignments(_: RequestContext, request: Any) -> Any:
    """Refuse ListPartitionReassignments, with what was asked for beside the error."""
    from oncelog.protocol.generated.list_partition_reassignments_response import (
        ListPartitionReassignmentsResponse,
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )

    return ListPartitionReassignmentsResponse(
        error_code=_ERROR,
        error_message=missing_text(AclOperation.DESCRIBE),
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


def users_not_described(_: RequestContext, request: Any) -> Any:
    """Refuse DescribeUserScramCredentials, with a row for each user, without the name."""
    from oncelog.protocol.generated.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )

    row = DescribeUserScramCredentialsResult(error_code=_ERROR, error_message=None)
    return DescribeUserScramCredentialsResponse(
        error_code=_ERROR, error_message=None, results=[row for _ in request.users or ()]
    )
