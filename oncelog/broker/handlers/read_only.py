"""What a read-only broker answers (`oncelog.read.only`): one table, API by API.

Owns: which APIs are handled as always, and the error of each of the others. Does not own: what stays still besides
requests (`broker.assembly.read_only`), their versions (`broker.apis.table`).
Invariant: every API that is served is in the table, so a new one says what it is before it can be used.

The errors are those of a Kafka whose authorizer lets everybody describe and read topics, and nothing else: no client
retries them, producers and group members end with them at once, and what they mean needs no explanation. The reason is
in the message of each response that has a field for one, and in the log. NOT_CONTROLLER, COORDINATOR_NOT_AVAILABLE or
KAFKA_STORAGE_ERROR would be retried until a timeout.

A consumer reads with `assign`, also with a group id, from offsets that the group has committed. It cannot join a group:
a membership is a change, and the members that were there would lose theirs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from oncelog.broker.handlers.shared.error_places import Place, Rows, response_with
from oncelog.broker.request import CloseConnection, Handler, RequestContext
from oncelog.broker.slices import Sliced
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

REASON = "This broker is read-only (oncelog.read.only)."


class Refused(NamedTuple):
    """Each request gets this error, at this place of its response."""

    error: ErrorCode
    place: Place = ()
    others: Mapping[str, Any] = MappingProxyType({})
    """Fields beside the error, as Kafka sets them then."""
    has_message: bool = False


READS = None
"""Handled as always: it changes nothing."""
_TOPIC, _GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
_ID, _CLUSTER = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NO_PRODUCER = MappingProxyType({"producer_id": -1, "producer_epoch": -1})
_BY_NAME_UNTIL = 5
"""DeleteTopics has names up to this version, then names or ids."""
_ONE_TRANSACTION_UNTIL = 3
"""AddPartitionsToTxn is of one transaction up to this version, as clients send it."""


def _of_topics(kind: str, of_partition: str, asked: str = "topics", answered: str = "topics") -> Place:
    return (
        Rows(asked, answered, kind, ("name",)),
        Rows("partitions", "partitions", of_partition, ("partition_index",)),
    )


def _of_resources() -> Refused:
    place = (Rows("resources", "responses", "AlterConfigsResourceResponse", ("resource_type", "resource_name")),)
    return Refused(_CLUSTER, place, has_message=True)


ANSWERS: dict[int, Refused | None] = {
    ApiKey.PRODUCE: Refused(
        _TOPIC,
        (
            Rows("topic_data", "responses", "TopicProduceResponse", ("name", "topic_id")),
            Rows("partition_data", "partition_responses", "PartitionProduceResponse", ("index",)),
        ),
        {"base_offset": -1},
        has_message=True,
    ),
    ApiKey.FETCH: READS,
    ApiKey.LIST_OFFSETS: READS,
    ApiKey.METADATA: READS,  # creates no topic: `auto.create.topics.enable` is false
    ApiKey.OFFSET_COMMIT: Refused(
        _GROUP,
        (
            Rows("topics", "topics", "OffsetCommitResponseTopic", ("name", "topic_id")),
            Rows("partitions", "partitions", "OffsetCommitResponsePartition", ("partition_index",)),
        ),
    ),
    ApiKey.OFFSET_FETCH: READS,
    ApiKey.FIND_COORDINATOR: READS,  # an internal topic that there is not yet is made in memory
    ApiKey.JOIN_GROUP: Refused(_GROUP),
    ApiKey.HEARTBEAT: Refused(_GROUP),
    ApiKey.LEAVE_GROUP: Refused(_GROUP),
    ApiKey.SYNC_GROUP: Refused(_GROUP),
    ApiKey.DESCRIBE_GROUPS: READS,
    ApiKey.LIST_GROUPS: READS,
    ApiKey.SASL_HANDSHAKE: READS,
    ApiKey.API_VERSIONS: READS,
    ApiKey.CREATE_TOPICS: Refused(
        _TOPIC,
        (Rows("topics", "topics", "CreatableTopicResult", ("name",)),),
        {"topic_config_error_code": _TOPIC, "num_partitions": -1, "replication_factor": -1},
        has_message=True,
    ),
    ApiKey.DELETE_TOPICS: Refused(
        _TOPIC, (Rows("topics", "responses", "DeletableTopicResult", ("name", "topic_id")),), has_message=True
    ),
    ApiKey.DELETE_RECORDS: Refused(
        _TOPIC, _of_topics("DeleteRecordsTopicResult", "DeleteRecordsPartitionResult"), {"low_watermark": -1}
    ),
    ApiKey.INIT_PRODUCER_ID: Refused(_ID, others=_NO_PRODUCER),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: READS,
    ApiKey.ADD_PARTITIONS_TO_TXN: Refused(_ID),
    ApiKey.ADD_OFFSETS_TO_TXN: Refused(_ID),
    ApiKey.END_TXN: Refused(_ID, others=_NO_PRODUCER),
    ApiKey.WRITE_TXN_MARKERS: Refused(
        _CLUSTER,
        (
            Rows("markers", "markers", "WritableTxnMarkerResult", ("producer_id",)),
            Rows("topics", "topics", "WritableTxnMarkerTopicResult", ("name",)),
            Rows("partition_indexes", "partitions", "WritableTxnMarkerPartitionResult", ("partition_index",)),
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: Refused(
        _ID, _of_topics("TxnOffsetCommitResponseTopic", "TxnOffsetCommitResponsePartition")
    ),
    ApiKey.DESCRIBE_ACLS: READS,
    ApiKey.CREATE_ACLS: Refused(_CLUSTER, (Rows("creations", "results", "AclCreationResult"),), has_message=True),
    ApiKey.DELETE_ACLS: Refused(
        _CLUSTER, (Rows("filters", "filter_results", "DeleteAclsFilterResult"),), has_message=True
    ),
    ApiKey.DESCRIBE_CONFIGS: READS,
    ApiKey.ALTER_CONFIGS: _of_resources(),
    ApiKey.ALTER_REPLICA_LOG_DIRS: READS,  # there is one log directory
    ApiKey.DESCRIBE_LOG_DIRS: READS,
    ApiKey.SASL_AUTHENTICATE: READS,
    ApiKey.CREATE_PARTITIONS: Refused(
        _TOPIC, (Rows("topics", "results", "CreatePartitionsTopicResult", ("name",)),), has_message=True
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Refused(_CLUSTER),
    ApiKey.RENEW_DELEGATION_TOKEN: Refused(_CLUSTER, others={"expiry_timestamp_ms": -1}),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Refused(_CLUSTER, others={"expiry_timestamp_ms": -1}),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: READS,
    ApiKey.DELETE_GROUPS: Refused(_GROUP, (Rows("groups_names", "results", "DeletableGroupResult", ("group_id",)),)),
    ApiKey.ELECT_LEADERS: READS,  # there is one node
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _of_resources(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: READS,  # there is one node
    ApiKey.LIST_PARTITION_REASSIGNMENTS: READS,
    ApiKey.OFFSET_DELETE: Refused(_GROUP),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: READS,
    ApiKey.ALTER_CLIENT_QUOTAS: Refused(
        _CLUSTER, (Rows("entries", "entries", "EntryData", ("entity",)),), has_message=True
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: READS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Refused(_CLUSTER, has_message=True),
    ApiKey.DESCRIBE_QUORUM: READS,
    ApiKey.UPDATE_FEATURES: Refused(_CLUSTER, has_message=True),
    ApiKey.DESCRIBE_CLUSTER: READS,
    ApiKey.DESCRIBE_PRODUCERS: READS,
    ApiKey.UNREGISTER_BROKER: READS,  # there is one node
    ApiKey.DESCRIBE_TRANSACTIONS: READS,
    ApiKey.LIST_TRANSACTIONS: READS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Refused(_GROUP, has_message=True),
    ApiKey.CONSUMER_GROUP_DESCRIBE: READS,
    ApiKey.LIST_CONFIG_RESOURCES: READS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: READS,
    ApiKey.ADD_RAFT_VOTER: READS,  # there is one node
    ApiKey.REMOVE_RAFT_VOTER: READS,
    # Refused by every broker of ours.
    ApiKey.SHARE_GROUP_HEARTBEAT: READS,
    ApiKey.SHARE_GROUP_DESCRIBE: READS,
    ApiKey.SHARE_FETCH: READS,
    ApiKey.SHARE_ACKNOWLEDGE: READS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: READS,
    ApiKey.READ_SHARE_GROUP_STATE: READS,
    ApiKey.WRITE_SHARE_GROUP_STATE: READS,
    ApiKey.DELETE_SHARE_GROUP_STATE: READS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: READS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: READS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: READS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: READS,
    ApiKey.STREAMS_GROUP_HEARTBEAT: READS,
    ApiKey.STREAMS_GROUP_DESCRIBE: READS,
}

_NAMED_TOPICS = (Rows("topic_names", "responses", "DeletableTopicResult", ("name",)),)
_OF_ONE_TRANSACTION = (
    Rows("v3_and_below_topics", "results_by_topic_v3_and_below", "AddPartitionsToTxnTopicResult", ("name",)),
    Rows("partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult", ("partition_index",)),
)


def around_handler(api: ApiKey, handle: Handler) -> Handler:
    """The handler itself if its API changes nothing."""
    refused = ANSWERS[api]
    if refused is READS:
        return handle

    def refuse(context: RequestContext, request: Any) -> Any:
        context.broker.log.warning("request.refused", api=api.name, client_id=context.client_id, message=REASON)
        return context.run(_response(api, refused, context.api_version, request))

    return refuse


def _response(api: ApiKey, refused: Refused, version: int, request: Any) -> Sliced[Any]:
    """Raises CloseConnection for Produce with acks=0, which has no response."""
    error, place, others, has_message = refused
    said: dict[str, Any] = {"error_code": error, **others}
    if has_message:
        said["error_message"] = REASON
    match api:
        case ApiKey.PRODUCE if request.acks == 0:
            raise CloseConnection(f"Produce with acks=0: {REASON}")
        case ApiKey.INIT_PRODUCER_ID if request.transactional_id is None:
            said["error_code"] = _CLUSTER
        case ApiKey.DELETE_TOPICS if version <= _BY_NAME_UNTIL:
            place = _NAMED_TOPICS
        case ApiKey.ADD_PARTITIONS_TO_TXN if version <= _ONE_TRANSACTION_UNTIL:
            place, said = _OF_ONE_TRANSACTION, {"partition_error_code": error}
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
            return AlterUserScramCredentialsResponse(
                results=[AlterUserScramCredentialsResult(user=user, **said) for user in users]
            )
    return (yield from response_with(api, request, place, **said))
