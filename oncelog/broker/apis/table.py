"""The APIs that this broker serves: key, module name, supported versions.

The single source for ApiVersions, the version gate and docs/compatibility.md. A range is listed here only if each of
its versions is served; an API without an implementation on one node is listed if it returns Kafka's own error. Upper
bounds follow the implementation, lower bounds are Kafka 4's (KIP-896).

As in Kafka the API version of a request implies its transaction version (KIP-890 part 2); the finalized feature
`transaction.version` decides where no client is involved. That is a table and not a function: Produce and EndTxn
compare with their constant, without a call.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from oncelog.protocol.api_keys import ApiKey


class Api(NamedTuple):
    key: ApiKey
    name: str
    """Part of module names: protocol.generated.NAME_request, broker.handlers.NAME."""
    minimum: int
    maximum: int
    advertised_minimum: int | None = None
    """Where it differs: librdkafka must see Produce from 0 on to find out that it may compress (KAFKA-18659)."""
    left_out: str = ""
    """What Kafka's broker does behind this API and this one does not, and why: for docs/compatibility.md."""
    unstable_maximum: int | None = None
    """The highest version that Kafka may still change: served and listed only if enabled."""
    is_refused: bool = False
    """Each request gets the one error that `broker.handlers.refusals` has for this API."""

    @property
    def handler(self) -> str:
        """The module that handles its requests."""
        return f"oncelog.broker.handlers.{'refusals' if self.is_refused else self.name}"

    def highest(self, with_unstable: bool) -> int:
        return self.unstable_maximum if with_unstable and self.unstable_maximum is not None else self.maximum


def _unimplemented(key: ApiKey, name: str, minimum: int, maximum: int, left_out: str) -> Api:
    return Api(key, name, minimum, maximum, left_out=left_out, is_refused=True)


_APIS = (
    Api(ApiKey.PRODUCE, "produce", 3, 13, advertised_minimum=0),
    Api(ApiKey.FETCH, "fetch", 4, 18),
    Api(ApiKey.LIST_OFFSETS, "list_offsets", 1, 11),
    Api(ApiKey.METADATA, "metadata", 0, 13),
    Api(ApiKey.OFFSET_COMMIT, "offset_commit", 2, 10),
    Api(ApiKey.OFFSET_FETCH, "offset_fetch", 1, 10),
    Api(ApiKey.FIND_COORDINATOR, "find_coordinator", 0, 6),
    Api(ApiKey.JOIN_GROUP, "join_group", 0, 9),
    Api(ApiKey.HEARTBEAT, "heartbeat", 0, 4),
    Api(ApiKey.LEAVE_GROUP, "leave_group", 0, 5),
    Api(ApiKey.SYNC_GROUP, "sync_group", 0, 5),
    Api(ApiKey.DESCRIBE_GROUPS, "describe_groups", 0, 6),
    Api(ApiKey.LIST_GROUPS, "list_groups", 0, 5),
    Api(ApiKey.SASL_HANDSHAKE, "sasl_handshake", 0, 1, left_out="GSSAPI (Kerberos) is no mechanism here."),
    Api(ApiKey.API_VERSIONS, "api_versions", 0, 4),
    Api(ApiKey.CREATE_TOPICS, "create_topics", 2, 7),
    Api(ApiKey.DELETE_TOPICS, "delete_topics", 1, 6),
    Api(ApiKey.DELETE_RECORDS, "delete_records", 0, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "init_producer_id", 0, 5, unstable_maximum=6),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "offset_for_leader_epoch", 2, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "add_partitions_to_txn", 0, 5),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "add_offsets_to_txn", 0, 4),
    Api(ApiKey.END_TXN, "end_txn", 0, 5),
    Api(ApiKey.WRITE_TXN_MARKERS, "write_txn_markers", 1, 2),
    Api(ApiKey.TXN_OFFSET_COMMIT, "txn_offset_commit", 0, 5),
    Api(ApiKey.DESCRIBE_ACLS, "describe_acls", 1, 3),
    Api(ApiKey.CREATE_ACLS, "create_acls", 1, 3),
    Api(ApiKey.DELETE_ACLS, "delete_acls", 1, 3),
    Api(ApiKey.DESCRIBE_CONFIGS, "describe_configs", 1, 4),
    Api(ApiKey.ALTER_CONFIGS, "alter_configs", 0, 2),
    Api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "alter_replica_log_dirs",
        1,
        2,
        left_out="There is one data directory: LOG_DIR_NOT_FOUND for any other.",
    ),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "describe_log_dirs", 1, 5),
    Api(ApiKey.SASL_AUTHENTICATE, "sasl_authenticate", 0, 2),
    Api(ApiKey.CREATE_PARTITIONS, "create_partitions", 0, 3),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "create_delegation_token", 1, 3),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "renew_delegation_token", 1, 2),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "expire_delegation_token", 1, 2),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "describe_delegation_token", 1, 3),
    Api(ApiKey.DELETE_GROUPS, "delete_groups", 0, 2),
    Api(ApiKey.ELECT_LEADERS, "elect_leaders", 0, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "incremental_alter_configs", 0, 1),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "alter_partition_reassignments",
        0,
        1,
        left_out="There is no other node to move a replica to: INVALID_REPLICA_ASSIGNMENT.",
    ),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "list_partition_reassignments", 0, 0),
    Api(ApiKey.OFFSET_DELETE, "offset_delete", 0, 0),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "describe_client_quotas", 0, 1),
    Api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        "alter_client_quotas",
        0,
        1,
        left_out="Quotas of addresses: names are not resolved, so an address is wanted.",
    ),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "describe_user_scram_credentials", 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "alter_user_scram_credentials", 0, 0),
    Api(ApiKey.DESCRIBE_QUORUM, "describe_quorum", 0, 2),
    Api(ApiKey.UPDATE_FEATURES, "update_features", 0, 2),
    Api(ApiKey.DESCRIBE_CLUSTER, "describe_cluster", 0, 2),
    Api(ApiKey.DESCRIBE_PRODUCERS, "describe_producers", 0, 0),
    Api(
        ApiKey.UNREGISTER_BROKER,
        "unregister_broker",
        0,
        0,
        left_out="There is no other broker, and this one cannot leave.",
    ),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "describe_transactions", 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, "list_transactions", 0, 2),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_group_heartbeat", 0, 1),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_group_describe", 0, 1),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "list_config_resources", 0, 1),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "describe_topic_partitions", 0, 0),
    _unimplemented(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        "share_group_heartbeat",
        1,
        1,
        "Share groups: as Kafka with share.version 0, UNSUPPORTED_VERSION.",
    ),
    _unimplemented(ApiKey.SHARE_GROUP_DESCRIBE, "share_group_describe", 1, 1, "Share groups, as above."),
    _unimplemented(ApiKey.SHARE_FETCH, "share_fetch", 1, 2, "Share groups, as above."),
    _unimplemented(ApiKey.SHARE_ACKNOWLEDGE, "share_acknowledge", 1, 2, "Share groups, as above."),
    Api(
        ApiKey.ADD_RAFT_VOTER,
        "add_raft_voter",
        0,
        1,
        left_out="The quorum is this node: as Kafka with kraft.version 0, UNSUPPORTED_VERSION.",
    ),
    Api(
        ApiKey.REMOVE_RAFT_VOTER,
        "remove_raft_voter",
        0,
        0,
        left_out="The quorum is this node: as Kafka with kraft.version 0, UNSUPPORTED_VERSION.",
    ),
    _unimplemented(
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        "initialize_share_group_state",
        0,
        0,
        "Share groups: as Kafka with share.version 0, NOT_COORDINATOR.",
    ),
    _unimplemented(ApiKey.READ_SHARE_GROUP_STATE, "read_share_group_state", 0, 0, "Share groups, as above."),
    _unimplemented(ApiKey.WRITE_SHARE_GROUP_STATE, "write_share_group_state", 0, 1, "Share groups, as above."),
    _unimplemented(ApiKey.DELETE_SHARE_GROUP_STATE, "delete_share_group_state", 0, 0, "Share groups, as above."),
    _unimplemented(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "read_share_group_state_summary", 0, 1, "Share groups, as above."
    ),
    _unimplemented(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        "streams_group_heartbeat",
        0,
        0,
        "Streams groups: as Kafka with streams.version 0. Kafka Streams runs in classic groups.",
    ),
    _unimplemented(ApiKey.STREAMS_GROUP_DESCRIBE, "streams_group_describe", 0, 0, "Streams groups, as above."),
    _unimplemented(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        "describe_share_group_offsets",
        0,
        1,
        "Share groups: as Kafka with share.version 0, UNSUPPORTED_VERSION.",
    ),
    _unimplemented(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "alter_share_group_offsets", 0, 0, "Share groups, as above."),
    _unimplemented(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "delete_share_group_offsets", 0, 0, "Share groups, as above."),
)

API_TABLE: dict[int, Api] = {int(api.key): api for api in _APIS}

TRANSACTION_V2 = 2
"""The level of `transaction.version` from which on every EndTxn bumps the epoch."""

TRANSACTION_V2_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {
        ApiKey.PRODUCE: 12,  # adds its partitions to the transaction implicitly
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,  # sent by brokers, on behalf of a Produce or TxnOffsetCommit of version 2
        ApiKey.END_TXN: 5,  # returns the next epoch
        ApiKey.TXN_OFFSET_COMMIT: 5,  # adds the group's partition to the transaction implicitly
    }
)
"""The first version of each API under transaction version 2; WriteTxnMarkers names the version of each marker."""
