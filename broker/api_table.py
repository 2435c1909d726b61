"""The APIs that this broker serves: key, module name, the versions that work.

The one source for ApiVersions, the version gate and docs/compatibility.md. A range is listed here only when each of
its versions is served; an API with nothing behind it on one node is listed when it gives Kafka's own error for that.
Upper bounds follow what the code behind them does, lower bounds are Kafka 4's (KIP-896).
"""

from typing import NamedTuple

from protocol.api_keys import ApiKey


class Api(NamedTuple):
    key: ApiKey
    name: str
    """Module name: broker.handlers.NAME, protocol.generated.NAME_request."""
    minimum: int
    maximum: int
    advertised_minimum: int | None = None
    """Where it differs: librdkafka needs to see Produce from 0 to find out that it may compress (KAFKA-18659)."""
    left_out: str = ""
    """What Kafka's broker does behind this API and this one does not, and why: for docs/compatibility.md."""


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
    Api(ApiKey.API_VERSIONS, "api_versions", 0, 4),
    Api(ApiKey.CREATE_TOPICS, "create_topics", 2, 7),
    Api(ApiKey.DELETE_TOPICS, "delete_topics", 1, 6),
    Api(ApiKey.DELETE_RECORDS, "delete_records", 0, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "init_producer_id", 0, 5),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "offset_for_leader_epoch", 2, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "add_partitions_to_txn", 0, 5),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "add_offsets_to_txn", 0, 4),
    Api(ApiKey.END_TXN, "end_txn", 0, 5),
    Api(ApiKey.WRITE_TXN_MARKERS, "write_txn_markers", 1, 2),
    Api(ApiKey.TXN_OFFSET_COMMIT, "txn_offset_commit", 0, 5),
    Api(ApiKey.DESCRIBE_CONFIGS, "describe_configs", 1, 4),
    Api(ApiKey.ALTER_CONFIGS, "alter_configs", 0, 2),
    Api(ApiKey.CREATE_PARTITIONS, "create_partitions", 0, 3),
    Api(ApiKey.DELETE_GROUPS, "delete_groups", 0, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "incremental_alter_configs", 0, 1),
    Api(ApiKey.OFFSET_DELETE, "offset_delete", 0, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "describe_producers", 0, 0),
    Api(ApiKey.UPDATE_FEATURES, "update_features", 0, 2),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "describe_transactions", 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, "list_transactions", 0, 1),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "list_config_resources", 0, 1),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "describe_topic_partitions", 0, 0),
)

API_TABLE: dict[int, Api] = {int(api.key): api for api in _APIS}
