"""The rights that each API needs, as Kafka 4.3's brokers and controllers check them.

Owns: the table, from which docs/operate/rights.md is generated. Does not own: how it is applied
(`broker.handlers.rights`). Invariant: every API of `broker.api_table` has a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from oncelog.broker.handlers.rights.checks import (
    EachRow,
    Needed,
    Operations,
    Right,
    Step,
    Then,
    Visible,
    by_field,
    itself,
)
from oncelog.broker.handlers.rights.configs import EachResource
from oncelog.broker.handlers.rights.groups import Assignments, Coordinators, Offsets, Subscription, enabled_group
from oncelog.broker.handlers.rights.refusals import (
    missing_text,
    no_election,
    no_reassignments,
    not_joined,
    not_moved,
    not_reassigned,
    users_not_altered,
    users_not_described,
)
from oncelog.broker.handlers.rights.topics import (
    ClusterOperations,
    Deletion,
    Metadata,
    Once,
    TopicPartitions,
    by_name,
    valid_name,
)
from oncelog.broker.handlers.rights.transactions import Adding, DescribedTopics, NewProducer, Writing
from oncelog.broker.handlers.shared.asked_topics import asked_topic
from oncelog.broker.handlers.shared.error_places import COMMITTED, COMMITTED_IN_TRANSACTION, Place, Rows
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_ID = ResourceType.TRANSACTIONAL_ID
_O = AclOperation
_CLUSTER_TEXT = ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text


@dataclass(frozen=True, slots=True)
class Rights:
    needs: tuple[Needed, ...] = ()
    step: Step | None = None
    inside: tuple[Right, ...] = ()
    """What the handler itself checks."""
    free: str = ""
    """Why no right is needed."""

    @property
    def all(self) -> Sequence[Right]:
        """Every right that a request of this API can need, each once."""
        own = [right for needed in self.needs for right in needed.rights]
        of_step = [] if self.step is None else self.step.rights
        return list(dict.fromkeys((*own, *of_step, *self.inside)))


def _cluster(operation: AclOperation, place: Place = (), text: str | None = None, **said: Any) -> Rights:
    return Rights((Needed(operation, place=place, text=text, said=said),))


def _forwarded(operation: AclOperation, place: Place = (), **said: Any) -> Rights:
    """Of a request that Kafka's controller answers."""
    return _cluster(operation, place, missing_text(operation.name), **said)


def _group(operation: AclOperation, step: Step | None = None, place: Place = (), **said: Any) -> Rights:
    return Rights((Needed(operation, _GROUP, "group_id", place, said),), step)


def _rows(operation: AclOperation, kind: ResourceType, place: Place, name_of: Any, **said: Any) -> EachRow:
    return EachRow(operation, kind, place, name_of, said)


def _share_state(kind: str) -> Rights:
    topics = Rows("topics", "results", kind, ("topic_id",))
    return _cluster(
        _O.CLUSTER_ACTION, (topics, Rows("partitions", "partitions", "PartitionResult", ("partition",))), _CLUSTER_TEXT
    )


_NOT_SERVED = Rights(free="every request is refused, whatever the rights")
_OF_ITS_OWNER = Rights(free="the owner and the renewers of the token, and no one else")
_BEFORE_LOGIN = Rights(free="part of logging in, or before it")

_DESCRIBED_GROUPS = Rows("group_ids", "groups", "DescribedGroup", ("group_id",))

RIGHTS: Final[Mapping[ApiKey, Rights]] = MappingProxyType(
    {
        ApiKey.PRODUCE: Rights(step=Writing()),
        ApiKey.FETCH: Rights(inside=(Right(_O.READ, _TOPIC), Right(_O.CLUSTER_ACTION, _CLUSTER))),
        ApiKey.LIST_OFFSETS: Rights(
            step=_rows(
                _O.DESCRIBE,
                _TOPIC,
                (
                    Rows("topics", "topics", "ListOffsetsTopicResponse", ("name",)),
                    Rows("partitions", "partitions", "ListOffsetsPartitionResponse", ("partition_index",)),
                ),
                by_name,
                timestamp=-1,
                offset=-1,
            )
        ),
        ApiKey.METADATA: Rights(step=Metadata()),
        ApiKey.OFFSET_COMMIT: _group(_O.READ, _rows(_O.READ, _TOPIC, COMMITTED, asked_topic), COMMITTED),
        ApiKey.OFFSET_FETCH: Rights(step=Offsets()),
        ApiKey.FIND_COORDINATOR: Rights(step=Coordinators()),
        ApiKey.JOIN_GROUP: Rights((Needed(_O.READ, _GROUP, "group_id", refusal=not_joined),)),
        ApiKey.HEARTBEAT: _group(_O.READ),
        ApiKey.LEAVE_GROUP: _group(_O.READ),
        ApiKey.SYNC_GROUP: _group(_O.READ),
        ApiKey.DESCRIBE_GROUPS: Rights(
            step=Then(
                _rows(_O.DESCRIBE, _GROUP, (Rows("groups", "groups", "DescribedGroup", ("group_id",)),), itself),
                Operations(_GROUP, "groups", "group_id", "authorized_operations"),
            )
        ),
        ApiKey.LIST_GROUPS: Rights(
            step=Visible(_O.DESCRIBE, _GROUP, "groups", "group_id", Right(_O.DESCRIBE, _CLUSTER))
        ),
        ApiKey.SASL_HANDSHAKE: _BEFORE_LOGIN,
        ApiKey.API_VERSIONS: _BEFORE_LOGIN,
        ApiKey.SASL_AUTHENTICATE: _BEFORE_LOGIN,
        ApiKey.CREATE_TOPICS: Rights(
            step=Once(
                EachRow(
                    _O.CREATE,
                    _TOPIC,
                    (Rows("topics", "topics", "CreatableTopicResult", ("name",)),),
                    by_name,
                    {"error_message": "Authorization failed."},
                    Right(_O.CREATE, _CLUSTER),
                ),
                Right(_O.DESCRIBE_CONFIGS, _TOPIC),
            )
        ),
        ApiKey.DELETE_TOPICS: Rights(step=Deletion()),
        ApiKey.DELETE_RECORDS: Rights(
            step=_rows(
                _O.DELETE,
                _TOPIC,
                (
                    Rows("topics", "topics", "DeleteRecordsTopicResult", ("name",)),
                    Rows("partitions", "partitions", "DeleteRecordsPartitionResult", ("partition_index",)),
                ),
                by_name,
                low_watermark=-1,
            )
        ),
        ApiKey.INIT_PRODUCER_ID: Rights(step=NewProducer()),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Rights(
            step=EachRow(
                _O.DESCRIBE,
                _TOPIC,
                (
                    Rows("topics", "topics", "OffsetForLeaderTopicResult", ("topic",)),
                    Rows("partitions", "partitions", "EpochEndOffset", ("partition",)),
                ),
                by_field("topic"),
                instead=Right(_O.CLUSTER_ACTION, _CLUSTER),
            )
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: Rights(step=Adding()),
        ApiKey.ADD_OFFSETS_TO_TXN: Rights(
            (Needed(_O.WRITE, _ID, "transactional_id"), Needed(_O.READ, _GROUP, "group_id"))
        ),
        ApiKey.END_TXN: Rights((Needed(_O.WRITE, _ID, "transactional_id"),)),
        ApiKey.WRITE_TXN_MARKERS: Rights(
            (
                Needed(
                    _O.CLUSTER_ACTION,
                    place=(
                        Rows("markers", "markers", "WritableTxnMarkerResult", ("producer_id",)),
                        Rows("topics", "topics", "WritableTxnMarkerTopicResult", ("name",)),
                        Rows(
                            "partition_indexes", "partitions", "WritableTxnMarkerPartitionResult", ("partition_index",)
                        ),
                    ),
                    instead=_O.ALTER,
                ),
            )
        ),
        ApiKey.TXN_OFFSET_COMMIT: Rights(
            (
                Needed(_O.WRITE, _ID, "transactional_id", COMMITTED_IN_TRANSACTION),
                Needed(_O.READ, _GROUP, "group_id", COMMITTED_IN_TRANSACTION),
            ),
            _rows(_O.READ, _TOPIC, COMMITTED_IN_TRANSACTION, by_name),
        ),
        ApiKey.DESCRIBE_ACLS: _forwarded(_O.DESCRIBE),
        ApiKey.CREATE_ACLS: _forwarded(_O.ALTER, (Rows("creations", "results", "AclCreationResult"),)),
        ApiKey.DELETE_ACLS: _forwarded(_O.ALTER, (Rows("filters", "filter_results", "DeleteAclsFilterResult"),)),
        ApiKey.DESCRIBE_CONFIGS: Rights(
            step=EachResource(_O.DESCRIBE_CONFIGS, "results", "DescribeConfigsResult"),
        ),
        ApiKey.ALTER_CONFIGS: Rights(step=EachResource(_O.ALTER_CONFIGS, "responses", "AlterConfigsResourceResponse")),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Rights(
            step=EachResource(_O.ALTER_CONFIGS, "responses", "AlterConfigsResourceResponse")
        ),
        ApiKey.ALTER_REPLICA_LOG_DIRS: Rights((Needed(_O.ALTER, refusal=not_moved),)),
        ApiKey.DESCRIBE_LOG_DIRS: _cluster(_O.DESCRIBE),
        ApiKey.CREATE_PARTITIONS: Rights(
            step=Once(
                EachRow(
                    _O.ALTER,
                    _TOPIC,
                    (Rows("topics", "results", "CreatePartitionsTopicResult", ("name",)),),
                    by_name,
                    {"error_message": None},
                )
            )
        ),
        ApiKey.CREATE_DELEGATION_TOKEN: Rights(inside=(Right(_O.CREATE_TOKENS, ResourceType.USER),)),
        ApiKey.RENEW_DELEGATION_TOKEN: _OF_ITS_OWNER,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _OF_ITS_OWNER,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: Rights(
            inside=(
                Right(_O.DESCRIBE_TOKENS, ResourceType.USER),
                Right(_O.DESCRIBE, ResourceType.DELEGATION_TOKEN),
            )
        ),
        ApiKey.DELETE_GROUPS: Rights(
            step=_rows(
                _O.DELETE, _GROUP, (Rows("groups_names", "results", "DeletableGroupResult", ("group_id",)),), itself
            )
        ),
        ApiKey.ELECT_LEADERS: Rights((Needed(_O.ALTER, refusal=no_election),)),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: Rights((Needed(_O.ALTER, refusal=not_reassigned),)),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: Rights((Needed(_O.DESCRIBE, refusal=no_reassignments),)),
        ApiKey.OFFSET_DELETE: _group(
            _O.DELETE,
            EachRow(
                _O.READ,
                _TOPIC,
                (
                    Rows("topics", "topics", "OffsetDeleteResponseTopic", ("name",)),
                    Rows("partitions", "partitions", "OffsetDeleteResponsePartition", ("partition_index",)),
                ),
                by_name,
                needs_rows=False,
            ),
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(_O.DESCRIBE_CONFIGS, error_message=None, entries=None),
        ApiKey.ALTER_CLIENT_QUOTAS: _cluster(
            _O.ALTER_CONFIGS, (Rows("entries", "entries", "EntryData", ("entity",)),), _CLUSTER_TEXT
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Rights((Needed(_O.DESCRIBE, refusal=users_not_described),)),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Rights((Needed(_O.ALTER, refusal=users_not_altered),)),
        ApiKey.DESCRIBE_QUORUM: _cluster(_O.DESCRIBE, (), _CLUSTER_TEXT),
        ApiKey.UPDATE_FEATURES: _forwarded(_O.ALTER),
        ApiKey.DESCRIBE_CLUSTER: Rights(step=ClusterOperations()),
        ApiKey.DESCRIBE_PRODUCERS: Rights(
            step=_rows(
                _O.READ,
                _TOPIC,
                (
                    Rows("topics", "topics", "TopicResponse", ("name",)),
                    Rows("partition_indexes", "partitions", "PartitionResponse", ("partition_index",)),
                ),
                valid_name,
                error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.text,
            )
        ),
        ApiKey.UNREGISTER_BROKER: _forwarded(_O.ALTER),
        ApiKey.DESCRIBE_TRANSACTIONS: Rights(
            step=Then(
                _rows(
                    _O.DESCRIBE,
                    _ID,
                    (Rows("transactional_ids", "transaction_states", "TransactionState", ("transactional_id",)),),
                    itself,
                ),
                DescribedTopics(),
            )
        ),
        ApiKey.LIST_TRANSACTIONS: Rights(step=Visible(_O.DESCRIBE, _ID, "transaction_states", "transactional_id")),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Rights(step=Subscription()),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Rights(
            step=Then(
                _rows(_O.DESCRIBE, _GROUP, (_DESCRIBED_GROUPS,), enabled_group),
                Then(Assignments(), Operations(_GROUP, "groups", "group_id", "authorized_operations")),
            )
        ),
        ApiKey.LIST_CONFIG_RESOURCES: _cluster(_O.DESCRIBE_CONFIGS),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rights(step=TopicPartitions()),
        ApiKey.SHARE_GROUP_HEARTBEAT: _NOT_SERVED,
        ApiKey.SHARE_GROUP_DESCRIBE: _NOT_SERVED,
        ApiKey.SHARE_FETCH: _NOT_SERVED,
        ApiKey.SHARE_ACKNOWLEDGE: _NOT_SERVED,
        ApiKey.ADD_RAFT_VOTER: _cluster(_O.ALTER, (), _CLUSTER_TEXT),
        ApiKey.REMOVE_RAFT_VOTER: _cluster(_O.ALTER, (), _CLUSTER_TEXT),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: _share_state("InitializeStateResult"),
        ApiKey.READ_SHARE_GROUP_STATE: _share_state("ReadStateResult"),
        ApiKey.WRITE_SHARE_GROUP_STATE: _share_state("WriteStateResult"),
        ApiKey.DELETE_SHARE_GROUP_STATE: _share_state("DeleteStateResult"),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _share_state("ReadStateSummaryResult"),
        ApiKey.STREAMS_GROUP_HEARTBEAT: _NOT_SERVED,
        ApiKey.STREAMS_GROUP_DESCRIBE: _NOT_SERVED,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _NOT_SERVED,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _NOT_SERVED,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _NOT_SERVED,
    }
)
"""The row of each API."""
