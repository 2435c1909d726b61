"""What a node that stands by does with each API: it answers what it knows, and says of the rest whom to ask.

Owns: the error of each. Does not own: the responses (`handlers.standby`).

A client goes to a leader or a coordinator by the address that Metadata or FindCoordinator has given it, and asks for
another after these errors. Which node it asks for the rest is by chance: a node that stands by answers them from the
metadata log, which it follows, or as a node that has no group and no transaction. Fetch is handled as by a node that
leads none of the partitions: clients look for another leader only after an error of a partition, not of the response.

What a broker of Kafka forwards to the controller, clients send to any node: Java's Admin to the one that it is
connected to, which after an error it asks again. It asks another once the connection is closed.
"""

from oncelog.protocol.api_keys import ApiKey as K
from oncelog.protocol.errors import ErrorCode

ANSWERED = frozenset(
    {
        K.API_VERSIONS,
        K.SASL_HANDSHAKE,
        K.SASL_AUTHENTICATE,
        K.METADATA,
        K.FETCH,
        K.FIND_COORDINATOR,
        K.DESCRIBE_CLUSTER,
        K.DESCRIBE_TOPIC_PARTITIONS,
        K.DESCRIBE_ACLS,
        K.DESCRIBE_CLIENT_QUOTAS,
        K.DESCRIBE_CONFIGS,
        K.DESCRIBE_DELEGATION_TOKEN,
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        K.LIST_CONFIG_RESOURCES,
        K.LIST_GROUPS,
        K.LIST_TRANSACTIONS,
        K.DESCRIBE_LOG_DIRS,
        K.ALTER_REPLICA_LOG_DIRS,  # both change nothing
        K.ELECT_LEADERS,
    }
)
_OF_PARTITIONS = {
    K.PRODUCE,
    K.LIST_OFFSETS,
    K.OFFSET_FOR_LEADER_EPOCH,
    K.DELETE_RECORDS,
    K.DESCRIBE_PRODUCERS,
    K.WRITE_TXN_MARKERS,
    K.SHARE_FETCH,
    K.SHARE_ACKNOWLEDGE,
}
_OF_COORDINATORS = {
    K.OFFSET_COMMIT,
    K.OFFSET_FETCH,
    K.OFFSET_DELETE,
    K.JOIN_GROUP,
    K.SYNC_GROUP,
    K.HEARTBEAT,
    K.LEAVE_GROUP,
    K.DESCRIBE_GROUPS,
    K.DELETE_GROUPS,
    K.CONSUMER_GROUP_HEARTBEAT,
    K.CONSUMER_GROUP_DESCRIBE,
    K.SHARE_GROUP_HEARTBEAT,
    K.SHARE_GROUP_DESCRIBE,
    K.DESCRIBE_SHARE_GROUP_OFFSETS,
    K.ALTER_SHARE_GROUP_OFFSETS,
    K.DELETE_SHARE_GROUP_OFFSETS,
    K.STREAMS_GROUP_HEARTBEAT,
    K.STREAMS_GROUP_DESCRIBE,
    K.INIT_PRODUCER_ID,
    K.ADD_PARTITIONS_TO_TXN,
    K.ADD_OFFSETS_TO_TXN,
    K.TXN_OFFSET_COMMIT,
    K.END_TXN,
    K.DESCRIBE_TRANSACTIONS,
    K.INITIALIZE_SHARE_GROUP_STATE,
    K.READ_SHARE_GROUP_STATE,
    K.WRITE_SHARE_GROUP_STATE,
    K.DELETE_SHARE_GROUP_STATE,
    K.READ_SHARE_GROUP_STATE_SUMMARY,
}
_OF_THE_CONTROLLER = {
    K.CREATE_TOPICS,
    K.DELETE_TOPICS,
    K.CREATE_PARTITIONS,
    K.CREATE_ACLS,
    K.DELETE_ACLS,
    K.ALTER_CONFIGS,
    K.INCREMENTAL_ALTER_CONFIGS,
    K.ALTER_CLIENT_QUOTAS,
    K.ALTER_USER_SCRAM_CREDENTIALS,
    K.CREATE_DELEGATION_TOKEN,
    K.RENEW_DELEGATION_TOKEN,
    K.EXPIRE_DELEGATION_TOKEN,
    K.ALTER_PARTITION_REASSIGNMENTS,
    K.LIST_PARTITION_REASSIGNMENTS,
    K.UPDATE_FEATURES,
    K.DESCRIBE_QUORUM,
    K.UNREGISTER_BROKER,
    K.ADD_RAFT_VOTER,
    K.REMOVE_RAFT_VOTER,
}

FROM_ANY_NODE = frozenset(
    {
        K.CREATE_ACLS,
        K.DELETE_ACLS,
        K.ALTER_CONFIGS,
        K.INCREMENTAL_ALTER_CONFIGS,
        K.ALTER_CLIENT_QUOTAS,
        K.CREATE_DELEGATION_TOKEN,
        K.RENEW_DELEGATION_TOKEN,
        K.EXPIRE_DELEGATION_TOKEN,
        K.DESCRIBE_QUORUM,
        K.UNREGISTER_BROKER,
        K.ADD_RAFT_VOTER,
        K.REMOVE_RAFT_VOTER,
    }
)
"""Those of the controller that clients do not send to it."""

ELSEWHERE = {
    **dict.fromkeys(_OF_PARTITIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    **dict.fromkeys(_OF_COORDINATORS, ErrorCode.NOT_COORDINATOR),
    **dict.fromkeys(_OF_THE_CONTROLLER, ErrorCode.NOT_CONTROLLER),
}
"""The error of each request that only the leader can answer. What no node of this broker serves is refused as always.
"""
