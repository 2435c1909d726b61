"""The APIs of administrators, of the cluster, of share groups, and those that one node can only refuse.

Owns: one descriptor for each. Does not own: the contracts, which are the docstrings of the handlers.
"""

from typing import Any

from oncelog.broker.apis.descriptor import (
    READS,
    Api,
    EachResource,
    EachRow,
    Errors,
    Need,
    Needed,
    Operations,
    Own,
    Owner,
    Refused,
    Right,
    Rights,
    Rows,
)
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

_O = AclOperation
_GROUP, _TOPIC, _CLUSTER = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER
_NO_TOPIC, _NO_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_SECURITY = (Need.SECURITY,)


def _cluster(operation: AclOperation, text: str | None = None, **said: Any) -> Rights:
    return Rights((Needed(operation, text=text, said=said),))


def missing_text(operation: AclOperation) -> str:
    """Return the message of Kafka's controller, without its description of the request."""
    return f"Request needs {operation.name} permission."


def _forwarded(operation: AclOperation) -> Rights:
    """Return the rights of a request that Kafka's controller answers."""
    return _cluster(operation, missing_text(operation))


def _refused(operation: AclOperation, refusal: str) -> Rights:
    return Rights((Needed(operation, refusal=refusal),))


def _each(asked: str, answered: str, kind: str, *repeats: str) -> tuple[Errors, ...]:
    return (Errors((Rows(asked, answered, kind, repeats),)),)


# --- topics and settings ----------------------------------------------------------------------------------------------

TOPICS = (
    Api(
        ApiKey.CREATE_TOPICS,
        2,
        7,
        owner=Owner.CONTROLLER,
        is_frequent=True,
        rights=Rights(
            steps=(
                EachRow(
                    _O.CREATE,
                    _TOPIC,
                    said={"error_message": "Authorization failed."},
                    instead=Right(_O.CREATE, _CLUSTER),
                    is_once=True,
                ),
                Own("topics.CreatedConfigs", (Right(_O.DESCRIBE_CONFIGS, _TOPIC),)),
            )
        ),
        read_only=Refused(
            _NO_TOPIC,
            {"topic_config_error_code": _NO_TOPIC, "num_partitions": -1, "replication_factor": -1},
            has_message=True,
        ),
        errors=_each("topics", "topics", "CreatableTopicResult", "name"),
        on_fault="no place",
    ),
    Api(
        ApiKey.DELETE_TOPICS,
        1,
        6,
        owner=Owner.CONTROLLER,
        is_frequent=True,
        rights=Rights(
            steps=(
                Own(
                    "topics.Deletion",
                    (Right(_O.DELETE, _TOPIC), Right(_O.DESCRIBE, _TOPIC), Right(_O.DELETE, _CLUSTER)),
                ),
            )
        ),
        read_only=Refused(_NO_TOPIC, has_message=True),
        errors=(  # by name, then by name or id
            Errors((Rows("topic_names", "responses", "DeletableTopicResult", ("name",)),), until=5),
            Errors((Rows("topics", "responses", "DeletableTopicResult", ("name", "topic_id")),)),
        ),
        on_fault="no place",
    ),
    Api(
        ApiKey.DELETE_RECORDS,
        0,
        2,
        owner=Owner.PARTITION,
        rights=Rights(steps=(EachRow(_O.DELETE, _TOPIC, said={"low_watermark": -1}),)),
        read_only=Refused(_NO_TOPIC, {"low_watermark": -1}),
        errors=(
            Errors(
                (
                    Rows("topics", "topics", "DeleteRecordsTopicResult", ("name",)),
                    Rows("partitions", "partitions", "DeleteRecordsPartitionResult", ("partition_index",)),
                )
            ),
        ),
        on_fault="no place",
    ),
    Api(
        ApiKey.CREATE_PARTITIONS,
        0,
        3,
        owner=Owner.CONTROLLER,
        rights=Rights(steps=(EachRow(_O.ALTER, _TOPIC, said={"error_message": None}, is_once=True),)),
        read_only=Refused(_NO_TOPIC, has_message=True),
        errors=_each("topics", "results", "CreatePartitionsTopicResult", "name"),
        on_fault="no place",
    ),
    Api(
        ApiKey.DESCRIBE_CONFIGS,
        1,
        4,
        owner=Owner.ANY,
        is_frequent=True,
        rights=Rights(steps=(EachResource(_O.DESCRIBE_CONFIGS),)),
        read_only=READS,
        errors=_each("resources", "results", "DescribeConfigsResult", "resource_type", "resource_name"),
        on_fault="handled",
    ),
    Api(
        ApiKey.ALTER_CONFIGS,
        0,
        2,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=Rights(steps=(EachResource(_O.ALTER_CONFIGS),)),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=_each("resources", "responses", "AlterConfigsResourceResponse", "resource_type", "resource_name"),
        on_fault="no place",
    ),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        1,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=Rights(steps=(EachResource(_O.ALTER_CONFIGS),)),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=_each("resources", "responses", "AlterConfigsResourceResponse", "resource_type", "resource_name"),
        on_fault="no place",
    ),
    Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, owner=Owner.ANY, rights=_cluster(_O.DESCRIBE_CONFIGS), read_only=READS),
)

# --- rights, quotas, users, tokens ------------------------------------------------------------------------------------

_OF_ITS_OWNER = Rights(free="the owner and the renewers of the token, and no one else")

SECURITY = (
    Api(ApiKey.DESCRIBE_ACLS, 1, 3, owner=Owner.ANY, needs=_SECURITY, rights=_forwarded(_O.DESCRIBE), read_only=READS),
    Api(
        ApiKey.CREATE_ACLS,
        1,
        3,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=_forwarded(_O.ALTER),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=_each("creations", "results", "AclCreationResult"),
        on_fault="no place",
    ),
    Api(
        ApiKey.DELETE_ACLS,
        1,
        3,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=_forwarded(_O.ALTER),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=_each("filters", "filter_results", "DeleteAclsFilterResult"),
        on_fault="no place",
    ),
    Api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        1,
        3,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=Rights(inside=(Right(_O.CREATE_TOKENS, ResourceType.USER),)),
        read_only=Refused(_NO_CLUSTER),
    ),
    Api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        1,
        2,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=_OF_ITS_OWNER,
        read_only=Refused(_NO_CLUSTER, {"expiry_timestamp_ms": -1}),
    ),
    Api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        1,
        2,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=_OF_ITS_OWNER,
        read_only=Refused(_NO_CLUSTER, {"expiry_timestamp_ms": -1}),
    ),
    Api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        1,
        3,
        owner=Owner.ANY,
        needs=_SECURITY,
        rights=Rights(
            inside=(Right(_O.DESCRIBE_TOKENS, ResourceType.USER), Right(_O.DESCRIBE, ResourceType.DELEGATION_TOKEN))
        ),
        read_only=READS,
    ),
    Api(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        0,
        1,
        owner=Owner.ANY,
        needs=_SECURITY,
        rights=_cluster(_O.DESCRIBE_CONFIGS, error_message=None, entries=None),
        read_only=READS,
    ),
    Api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        0,
        1,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        needs=_SECURITY,
        rights=_cluster(_O.ALTER_CONFIGS, _NO_CLUSTER.text),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=_each("entries", "entries", "EntryData", "entity"),
        on_fault="no place",
        left_out="Quotas of addresses: names are not resolved, so an address is wanted.",
    ),
    Api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        0,
        owner=Owner.ANY,
        needs=_SECURITY,
        rights=_refused(_O.DESCRIBE, "users_not_described"),
        read_only=READS,
    ),
    Api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        0,
        owner=Owner.CONTROLLER,
        needs=_SECURITY,
        rights=_refused(_O.ALTER, "users_not_altered"),
        read_only=Refused(_NO_CLUSTER, has_message=True),
        errors=(Errors(),),  # in a row for each user, whom two arrays name
        on_fault="no place",
    ),
)

# --- the cluster ------------------------------------------------------------------------------------------------------

_ONE_NODE = "The quorum is this node: as Kafka with kraft.version 0, UNSUPPORTED_VERSION."

CLUSTER = (
    Api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        1,
        2,
        owner=Owner.ANY,
        rights=_refused(_O.ALTER, "not_moved"),
        read_only=READS,  # there is one log directory
        errors=(Errors(),),
        on_fault="no place",
        left_out="There is one data directory: LOG_DIR_NOT_FOUND for any other.",
    ),
    Api(
        ApiKey.DESCRIBE_LOG_DIRS,
        1,
        5,
        owner=Owner.ANY,
        rights=_cluster(_O.DESCRIBE),
        read_only=READS,
        errors=(Errors(until=2), Errors(is_whole=True)),
        on_fault="handled",
    ),
    Api(
        ApiKey.ELECT_LEADERS,
        0,
        2,
        owner=Owner.ANY,
        rights=_refused(_O.ALTER, "no_election"),
        read_only=READS,  # there is one node
        errors=(Errors(until=0), Errors(is_whole=True)),
    ),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        1,
        owner=Owner.CONTROLLER,
        rights=_refused(_O.ALTER, "not_reassigned"),
        read_only=READS,  # there is one node
        left_out="There is no other node to move a replica to: INVALID_REPLICA_ASSIGNMENT.",
    ),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        0,
        owner=Owner.CONTROLLER,
        rights=_refused(_O.DESCRIBE, "no_reassignments"),
        read_only=READS,
    ),
    Api(
        ApiKey.DESCRIBE_QUORUM,
        0,
        2,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=_cluster(_O.DESCRIBE, _NO_CLUSTER.text),
        read_only=READS,
    ),
    Api(
        ApiKey.UPDATE_FEATURES,
        0,
        2,
        owner=Owner.CONTROLLER,
        rights=_forwarded(_O.ALTER),
        read_only=Refused(_NO_CLUSTER, has_message=True),
    ),
    Api(
        ApiKey.DESCRIBE_CLUSTER,
        0,
        2,
        owner=Owner.ANY,
        names_leader=True,
        rights=Rights(steps=(Own("topics.ClusterOperations", (Right(_O.DESCRIBE, _CLUSTER),)),)),
        read_only=READS,
    ),
    Api(
        ApiKey.UNREGISTER_BROKER,
        0,
        0,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=_forwarded(_O.ALTER),
        read_only=READS,  # there is one node
        left_out="There is no other broker, and this one cannot leave.",
    ),
    Api(
        ApiKey.ADD_RAFT_VOTER,
        0,
        1,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=_cluster(_O.ALTER, _NO_CLUSTER.text),
        read_only=READS,  # there is one node
        left_out=_ONE_NODE,
    ),
    Api(
        ApiKey.REMOVE_RAFT_VOTER,
        0,
        0,
        owner=Owner.CONTROLLER,
        from_any_node=True,
        rights=_cluster(_O.ALTER, _NO_CLUSTER.text),
        read_only=READS,  # there is one node
        left_out=_ONE_NODE,
    ),
)

# --- share groups -----------------------------------------------------------------------------------------------------

_SHARE_GROUPS = (Need.GROUPS, Need.SHARE_GROUPS, Need.SHARE_STATE)
_NO_GROUP = Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, has_message=True)

SHARE_GROUPS = (
    Api(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        1,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_SHARE_GROUPS,
        rights=Rights(steps=(Own("share_groups.Subscription", (Right(_O.READ, _GROUP), Right(_O.DESCRIBE, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
    Api(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        1,
        owner=Owner.COORDINATOR,
        needs=_SHARE_GROUPS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="share_groups.served_group"),
                Own("share_groups.Assignments", (Right(_O.DESCRIBE, _TOPIC),)),
                Operations(_GROUP, "groups", "group_id", "authorized_operations"),
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("group_ids", "groups", "DescribedGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        1,
        owner=Owner.COORDINATOR,
        needs=_SHARE_GROUPS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="share_groups.served_group_of"),
                Own("share_groups.DescribedOffsets", (Right(_O.DESCRIBE, _TOPIC),)),
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("groups", "groups", "DescribeShareGroupOffsetsResponseGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        0,
        owner=Owner.COORDINATOR,
        needs=_SHARE_GROUPS,
        rights=Rights(steps=(Own("share_groups.AlteredOffsets", (Right(_O.READ, _GROUP), Right(_O.READ, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
    Api(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        0,
        owner=Owner.COORDINATOR,
        needs=_SHARE_GROUPS,
        rights=Rights(steps=(Own("share_groups.DeletedOffsets", (Right(_O.DELETE, _GROUP), Right(_O.READ, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
)

# --- the share coordinator --------------------------------------------------------------------------------------------


def _share_state(key: ApiKey, maximum: int, kind: str, read_only: Refused | None) -> Api:
    """A request of a group coordinator or of a partition's leader to a share coordinator (KIP-932)."""
    topics = Rows("topics", "results", kind, ("topic_id",))
    partitions = Rows("partitions", "partitions", "PartitionResult", ("partition",))
    return Api(
        key,
        0,
        maximum,
        owner=Owner.COORDINATOR,
        needs=(Need.SHARE_STATE,),
        rights=_cluster(_O.CLUSTER_ACTION, _NO_CLUSTER.text),
        read_only=read_only,
        errors=(Errors((topics, partitions)),),
        on_fault="no place",
    )


_NO_STATE = Refused(_NO_CLUSTER, has_message=True)

SHARE_STATE = (
    _share_state(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, "InitializeStateResult", _NO_STATE),
    # A read writes the epoch of its leader.
    _share_state(ApiKey.READ_SHARE_GROUP_STATE, 0, "ReadStateResult", _NO_STATE),
    _share_state(ApiKey.WRITE_SHARE_GROUP_STATE, 1, "WriteStateResult", _NO_STATE),
    _share_state(ApiKey.DELETE_SHARE_GROUP_STATE, 0, "DeleteStateResult", _NO_STATE),
    _share_state(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, "ReadStateSummaryResult", READS),
)
