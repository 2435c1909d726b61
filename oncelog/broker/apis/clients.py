"""The APIs of producers and consumers, their groups and their transactions.

Owns: one descriptor for each. Does not own: the contracts, which are the docstrings of the handlers.

The errors of a read-only broker are those of a Kafka whose authorizer lets everybody describe and read topics, and
nothing else (`broker.handlers.read_only`).
"""

from collections.abc import Sequence
from types import MappingProxyType

from oncelog.broker.apis.descriptor import (
    READS,
    Api,
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
    Visible,
)
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

_O = AclOperation
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_ID = ResourceType.TRANSACTIONAL_ID
_NO_TOPIC, _NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
_NO_ID, _NO_CLUSTER = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NO_PRODUCER = MappingProxyType({"producer_id": -1, "producer_epoch": -1})
_BEFORE_LOGIN = Rights(free="part of logging in, or before it")
_GROUPS, _TRANSACTIONS = (Need.GROUPS,), (Need.TRANSACTIONS,)
_BOTH = (Need.GROUPS, Need.TRANSACTIONS)
_SHARING = (Need.SHARE_STATE, Need.SHARING)
_STREAMS = (Need.GROUPS, Need.STREAMS_GROUPS)
_OPERATIONS = Operations(_GROUP, "groups", "group_id", "authorized_operations")


def _member(refusal: str = "") -> Rights:
    return Rights((Needed(_O.READ, _GROUP, "group_id", refusal=refusal),))


def _partitions(
    kind: str, of_partition: str, name: Sequence[str] = ("name",), index: str = "partition_index"
) -> Errors:
    """Return the errors of a response with topics and an error for each partition."""
    return Errors(
        (Rows("topics", "topics", kind, tuple(name)), Rows("partitions", "partitions", of_partition, (index,)))
    )


_FETCHED_OFFSETS = (
    Rows("topics", "topics", "OffsetFetchResponseTopic", ("name",)),
    Rows("partition_indexes", "partitions", "OffsetFetchResponsePartition", ("partition_index",)),
)

CONNECTIONS = (
    Api(
        ApiKey.SASL_HANDSHAKE,
        0,
        1,
        owner=Owner.ANY,
        rights=_BEFORE_LOGIN,
        read_only=READS,
        is_charged=False,  # it is not known yet who asks
        left_out="GSSAPI (Kerberos) is no mechanism here.",
    ),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, owner=Owner.ANY, rights=_BEFORE_LOGIN, read_only=READS, is_charged=False),
    Api(
        ApiKey.API_VERSIONS,
        0,
        4,
        owner=Owner.ANY,
        is_frequent=True,
        rights=_BEFORE_LOGIN,
        read_only=READS,
        on_fault="handled",
        witnessed="request",
    ),
)

RECORDS = (
    Api(
        ApiKey.PRODUCE,
        3,
        13,
        owner=Owner.PARTITION,
        is_frequent=True,
        topic_ids_since=13,
        advertised_minimum=0,  # librdkafka must see it from 0 on to find out that it may compress (KAFKA-18659)
        transaction_v2_since=12,  # adds its partitions to the transaction implicitly
        needs=_TRANSACTIONS,
        rights=Rights(steps=(Own("transactions.Writing", (Right(_O.WRITE, _TOPIC), Right(_O.WRITE, _ID))),)),
        read_only=Refused(_NO_TOPIC, {"base_offset": -1}, has_message=True),
        errors=(
            Errors(
                (
                    Rows("topic_data", "responses", "TopicProduceResponse", ("name", "topic_id")),
                    Rows("partition_data", "partition_responses", "PartitionProduceResponse", ("index",)),
                )
            ),
        ),
        witnessed="response",
    ),
    Api(
        ApiKey.FETCH,
        4,
        18,
        owner=Owner.EACH,
        is_frequent=True,
        topic_ids_since=13,
        rights=Rights(inside=(Right(_O.READ, _TOPIC), Right(_O.CLUSTER_ACTION, _CLUSTER))),
        read_only=READS,
        errors=(Errors(until=6), Errors(is_whole=True)),
        on_fault="handled",
        witnessed="request",
    ),
    Api(
        ApiKey.LIST_OFFSETS,
        1,
        11,
        owner=Owner.PARTITION,
        is_frequent=True,
        rights=Rights(steps=(EachRow(_O.DESCRIBE, _TOPIC, said={"timestamp": -1, "offset": -1}),)),
        read_only=READS,
        errors=(_partitions("ListOffsetsTopicResponse", "ListOffsetsPartitionResponse"),),
        on_fault="handled",
    ),
    Api(
        ApiKey.METADATA,
        0,
        13,
        owner=Owner.ANY,
        names_leader=True,
        is_frequent=True,
        rights=Rights(
            steps=(
                Own(
                    "topics.Metadata",
                    (Right(_O.DESCRIBE, _TOPIC), Right(_O.CREATE, _CLUSTER), Right(_O.CREATE, _TOPIC)),
                ),
            )
        ),
        read_only=READS,  # creates no topic: `auto.create.topics.enable` is false
        errors=(Errors(until=12), Errors(is_whole=True)),
        on_fault="handled",
    ),
    Api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        2,
        4,
        owner=Owner.PARTITION,
        is_frequent=True,
        rights=Rights(steps=(EachRow(_O.DESCRIBE, _TOPIC, "topic", instead=Right(_O.CLUSTER_ACTION, _CLUSTER)),)),
        read_only=READS,
        errors=(_partitions("OffsetForLeaderTopicResult", "EpochEndOffset", ("topic",), "partition"),),
        on_fault="handled",
    ),
    Api(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        0,
        owner=Owner.ANY,
        rights=Rights(steps=(Own("topics.TopicPartitions", (Right(_O.DESCRIBE, _TOPIC),)),)),
        read_only=READS,
        errors=(Errors((Rows("topics", "topics", "DescribeTopicPartitionsResponseTopic", ("name",)),)),),
        on_fault="handled",
    ),
)

GROUPS = (
    Api(
        ApiKey.FIND_COORDINATOR,
        0,
        6,
        owner=Owner.ANY,
        names_leader=True,
        is_frequent=True,
        rights=Rights(
            steps=(
                Own(
                    "groups.Coordinators",
                    (Right(_O.DESCRIBE, _GROUP), Right(_O.DESCRIBE, _ID), Right(_O.CLUSTER_ACTION, _CLUSTER)),
                ),
            )
        ),
        read_only=READS,  # an internal topic that there is not yet is made in memory
        errors=(
            Errors(is_whole=True, until=3),
            Errors((Rows("coordinator_keys", "coordinators", "Coordinator", ("key",)),)),
        ),
        on_fault="handled",
    ),
    Api(
        ApiKey.OFFSET_COMMIT,
        2,
        10,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        topic_ids_since=10,
        needs=_GROUPS,
        rights=Rights(
            (Needed(_O.READ, _GROUP, "group_id"),), (EachRow(_O.READ, _TOPIC, name_of="transactions.asked_topic"),)
        ),
        read_only=Refused(_NO_GROUP),
        errors=(_partitions("OffsetCommitResponseTopic", "OffsetCommitResponsePartition", ("name", "topic_id")),),
        witnessed="response",
    ),
    Api(
        ApiKey.OFFSET_FETCH,
        1,
        10,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        topic_ids_since=10,
        needs=_GROUPS,
        rights=Rights(steps=(Own("groups.Offsets", (Right(_O.DESCRIBE, _GROUP), Right(_O.DESCRIBE, _TOPIC))),)),
        read_only=READS,
        errors=(
            Errors(_FETCHED_OFFSETS, until=1),
            Errors(_FETCHED_OFFSETS, is_whole=True, until=7),
            Errors((Rows("groups", "groups", "OffsetFetchResponseGroup", ("group_id",)),)),
        ),
        on_fault="handled",
    ),
    Api(
        ApiKey.JOIN_GROUP,
        0,
        9,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_GROUPS,
        rights=_member("not_joined"),
        read_only=Refused(_NO_GROUP),
        witnessed="request",
    ),
    Api(
        ApiKey.HEARTBEAT,
        0,
        4,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_GROUPS,
        rights=_member(),
        read_only=Refused(_NO_GROUP),
    ),
    Api(
        ApiKey.LEAVE_GROUP,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_GROUPS,
        rights=_member(),
        read_only=Refused(_NO_GROUP),
    ),
    Api(
        ApiKey.SYNC_GROUP,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_GROUPS,
        rights=_member(),
        read_only=Refused(_NO_GROUP),
    ),
    Api(
        ApiKey.DESCRIBE_GROUPS,
        0,
        6,
        owner=Owner.COORDINATOR,
        needs=_GROUPS,
        rights=Rights(steps=(EachRow(_O.DESCRIBE, _GROUP, ""), _OPERATIONS)),
        read_only=READS,
        errors=(Errors((Rows("groups", "groups", "DescribedGroup", ("group_id",)),)),),
        on_fault="handled",
    ),
    Api(
        ApiKey.LIST_GROUPS,
        0,
        5,
        owner=Owner.EACH,
        needs=_GROUPS,
        rights=Rights(
            steps=(Visible(_O.DESCRIBE, _GROUP, "groups", "group_id", instead=Right(_O.DESCRIBE, _CLUSTER)),)
        ),
        read_only=READS,
    ),
    Api(
        ApiKey.DELETE_GROUPS,
        0,
        2,
        owner=Owner.COORDINATOR,
        needs=_GROUPS,
        rights=Rights(steps=(EachRow(_O.DELETE, _GROUP, ""),)),
        read_only=Refused(_NO_GROUP),
        errors=(Errors((Rows("groups_names", "results", "DeletableGroupResult", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.OFFSET_DELETE,
        0,
        0,
        owner=Owner.COORDINATOR,
        needs=_GROUPS,
        rights=Rights((Needed(_O.DELETE, _GROUP, "group_id"),), (EachRow(_O.READ, _TOPIC, needs_rows=False),)),
        read_only=Refused(_NO_GROUP),
        errors=(_partitions("OffsetDeleteResponseTopic", "OffsetDeleteResponsePartition")._replace(is_whole=True),),
    ),
    Api(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        1,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_GROUPS,
        rights=Rights(steps=(Own("groups.Subscription", (Right(_O.READ, _GROUP), Right(_O.DESCRIBE, _TOPIC))),)),
        read_only=Refused(_NO_GROUP, has_message=True),
        witnessed="request",
    ),
    Api(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        1,
        owner=Owner.COORDINATOR,
        needs=_GROUPS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="groups.enabled_group"),
                Own("groups.Assignments", (Right(_O.DESCRIBE, _TOPIC),)),
                _OPERATIONS,
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("group_ids", "groups", "DescribedGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        0,
        owner=Owner.COORDINATOR,
        needs=_STREAMS,
        rights=Rights(
            steps=(Own("streams_groups.Application", (Right(_O.READ, _GROUP), Right(_O.DESCRIBE, _TOPIC))),),
            inside=(Right(_O.CREATE, _CLUSTER), Right(_O.CREATE, _TOPIC)),
        ),
        read_only=Refused(_NO_GROUP, has_message=True),
    ),
    Api(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        0,
        0,
        owner=Owner.COORDINATOR,
        needs=_STREAMS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="streams_groups.enabled_group"),
                Own("streams_groups.Topologies", (Right(_O.DESCRIBE, _TOPIC),)),
                _OPERATIONS,
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("group_ids", "groups", "DescribedGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
)

_SHARED = Rights(inside=(Right(_O.READ, _GROUP), Right(_O.READ, _TOPIC)))


def _shared(kind: str) -> Errors:
    topics, partitions = Rows("topics", "responses", kind, ("topic_id",)), ("partition_index",)
    return Errors((topics, Rows("partitions", "partitions", "PartitionData", partitions)), is_whole=True)


SHARING = (
    Api(
        ApiKey.SHARE_FETCH,
        1,
        2,
        owner=Owner.PARTITION,
        is_frequent=True,
        needs=_SHARING,
        rights=_SHARED,
        read_only=Refused(_NO_GROUP),
        errors=(_shared("ShareFetchableTopicResponse"),),
        witnessed="response",
    ),
    Api(
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        2,
        owner=Owner.PARTITION,
        is_frequent=True,
        needs=_SHARING,
        rights=_SHARED,
        read_only=Refused(_NO_GROUP),
        errors=(_shared("ShareAcknowledgeTopicResponse"),),
        witnessed="response",
    ),
)

TRANSACTIONS = (
    Api(
        ApiKey.INIT_PRODUCER_ID,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        unstable_maximum=6,
        needs=_TRANSACTIONS,
        rights=Rights(
            steps=(
                Own(
                    "transactions.NewProducer",
                    (
                        Right(_O.WRITE, _ID),
                        Right(_O.TWO_PHASE_COMMIT, _ID),
                        Right(_O.IDEMPOTENT_WRITE, _CLUSTER),
                        Right(_O.WRITE, _TOPIC),
                    ),
                ),
            )
        ),
        read_only=Refused(_NO_ID, _NO_PRODUCER),
        witnessed="response",
    ),
    Api(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        transaction_v2_since=4,  # sent by brokers, on behalf of a Produce or TxnOffsetCommit of version 2
        needs=_TRANSACTIONS,
        rights=Rights(
            steps=(
                Own(
                    "transactions.Adding",
                    (Right(_O.WRITE, _ID), Right(_O.WRITE, _TOPIC), Right(_O.CLUSTER_ACTION, _CLUSTER)),
                ),
            )
        ),
        read_only=Refused(_NO_ID),
        errors=(
            Errors(  # of one transaction, as clients send it; then of several, with one error for all of them
                (
                    Rows(
                        "v3_and_below_topics",
                        "results_by_topic_v3_and_below",
                        "AddPartitionsToTxnTopicResult",
                        ("name",),
                    ),
                    Rows(
                        "partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult", ("partition_index",)
                    ),
                ),
                field="partition_error_code",
                until=3,
            ),
            Errors(is_whole=True),
        ),
    ),
    Api(
        ApiKey.ADD_OFFSETS_TO_TXN,
        0,
        4,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_BOTH,
        rights=Rights((Needed(_O.WRITE, _ID, "transactional_id"), Needed(_O.READ, _GROUP, "group_id"))),
        read_only=Refused(_NO_ID),
    ),
    Api(
        ApiKey.END_TXN,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        transaction_v2_since=5,  # returns the next epoch
        needs=_TRANSACTIONS,
        rights=Rights((Needed(_O.WRITE, _ID, "transactional_id"),)),
        read_only=Refused(_NO_ID, _NO_PRODUCER),
        witnessed="response",
    ),
    Api(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        2,
        owner=Owner.PARTITION,
        is_frequent=True,
        needs=_GROUPS,
        rights=Rights((Needed(_O.CLUSTER_ACTION, instead=_O.ALTER),)),
        read_only=Refused(_NO_CLUSTER),
        errors=(
            Errors(
                (
                    Rows("markers", "markers", "WritableTxnMarkerResult", ("producer_id",)),
                    Rows("topics", "topics", "WritableTxnMarkerTopicResult", ("name",)),
                    Rows("partition_indexes", "partitions", "WritableTxnMarkerPartitionResult", ("partition_index",)),
                )
            ),
        ),
        on_fault="no place",
        is_charged=False,  # between brokers
    ),
    Api(
        ApiKey.TXN_OFFSET_COMMIT,
        0,
        5,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        transaction_v2_since=5,  # adds the group's partition to the transaction implicitly
        needs=_BOTH,
        rights=Rights(
            (Needed(_O.WRITE, _ID, "transactional_id"), Needed(_O.READ, _GROUP, "group_id")),
            (EachRow(_O.READ, _TOPIC),),
        ),
        read_only=Refused(_NO_ID),
        errors=(_partitions("TxnOffsetCommitResponseTopic", "TxnOffsetCommitResponsePartition"),),
        witnessed="response",
    ),
    Api(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        0,
        owner=Owner.PARTITION,
        is_frequent=True,
        rights=Rights(
            steps=(EachRow(_O.READ, _TOPIC, name_of="topics.valid_name", said={"error_message": _NO_TOPIC.text}),)
        ),
        read_only=READS,
        errors=(
            Errors(
                (
                    Rows("topics", "topics", "TopicResponse", ("name",)),
                    Rows("partition_indexes", "partitions", "PartitionResponse", ("partition_index",)),
                )
            ),
        ),
        on_fault="handled",
    ),
    Api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        0,
        owner=Owner.COORDINATOR,
        is_frequent=True,
        needs=_TRANSACTIONS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _ID, ""),
                Own("transactions.DescribedTopics", (Right(_O.DESCRIBE, _TOPIC),)),
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("transactional_ids", "transaction_states", "TransactionState", ("transactional_id",)),)),),
        on_fault="handled",
    ),
    Api(
        ApiKey.LIST_TRANSACTIONS,
        0,
        2,
        owner=Owner.EACH,
        is_frequent=True,
        rights=Rights(steps=(Visible(_O.DESCRIBE, _ID, "transaction_states", "transactional_id"),)),
        read_only=READS,
    ),
)
