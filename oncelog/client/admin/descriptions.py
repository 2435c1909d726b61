"""What Admin takes and returns: topics, nodes, settings, rights, tokens, groups and transactions as plain values.

Owns: the classes. Does not own: the requests (the other modules of this room). Times are milliseconds since the epoch,
sizes bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.client.values.records import TopicPartition

CONFIG_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""The sources of settings, as Kafka's ConfigEntry.ConfigSource names them."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default. `NewTopic("t", partition_count=3, configs={"retention.ms":
    "-1"})`."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition: the node ids of its leader (-1 while there is none), its replicas, those in sync, and those that
    are offline: the broker is away, or the files cannot be used."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster's metadata describes it."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionDescription, ...]
    """The partitions in the order of their numbers."""
    is_internal: bool

    @property
    def leaders(self) -> tuple[int, ...]:
        """The node id of each partition's leader."""
        return tuple(each.leader for each in self.partitions)

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.partitions)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, controller, nodes (id to host and port), finalized feature levels, the lowest and highest level
    of each feature that the broker supports. `fenced_nodes`: where asked for, those that have ended and may come back
    (KIP-1073; none where the brokers do not list them)."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, tuple[str, int]]
    finalized_features: Mapping[str, int]
    supported_features: Mapping[str, tuple[int, int]]
    fenced_nodes: Mapping[int, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node that has the cluster's metadata log, as Java's QuorumInfo.ReplicaState; -1 where its leader does not know.

    The last three are of oncelog's brokers alone, and of those alone that are several nodes.
    """

    node_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_time_ms: int
    """When the leader last heard of it."""
    last_caught_up_time_ms: int
    """When it last had everything."""
    leading_since_ms: int = -1
    """Since when it leads, if it does."""
    leading_reason: str = ""
    """Why the leader could begin to lead: what became of the one before."""
    rounds_behind: int = -1
    """By how many rounds of the journal a node that stands by was behind; -1 for one that does not stand by yet."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The cluster's metadata log: the node that leads it and in which epoch, those that elect it, and those that only
    follow."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader(self) -> QuorumReplica | None:
        """The voter that leads; None if there is none."""
        return next((each for each in self.voters if each.node_id == self.leader_id), None)


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One data directory of a node. `sizes_bytes` has each partition in it; the volume's sizes are -1 where the broker
    does not report them (KIP-827)."""

    node_id: int
    path: str
    sizes_bytes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the places where the value of a setting may come from, as Kafka's ConfigEntry.ConfigSynonym."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic, node or group. `value` is None for a secret; `source` is Kafka's name of where the value
    comes from, such as DYNAMIC_TOPIC_CONFIG or DEFAULT_CONFIG."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Where the value comes from and what would hold without it, the first in force."""

    @property
    def is_default(self) -> bool:
        """Whether the value is the default, set nowhere."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule, as Kafka's AclBinding: `principal` may (or with `permission="DENY"` may not) do `operation` on a
    resource. Types and operations have Kafka's names: "TOPIC", "TRANSACTIONAL_ID"; "READ", "DESCRIBE_CONFIGS", "ALL".

        Acl("User:alice", "READ", "TOPIC", "orders")
        Acl("User:*", "WRITE", "TOPIC", "logs-", pattern_type="PREFIXED")

    The resource name "*" means all of the type; of the type "CLUSTER" the only one is "kafka-cluster".
    """

    principal: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects rules: those that have each of these values, as Kafka's AclBindingFilter. With `pattern_type="MATCH"`,
    `resource_name` selects every rule that counts for that resource: literal, prefixes of it, and "*"."""

    principal: str | None = None
    operation: str = "ANY"
    resource_type: str = "ANY"
    resource_name: str | None = None
    pattern_type: str = "ANY"
    permission: str = "ANY"
    host: str | None = None


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token: its id and its HMAC log a client in as `owner` until `expiry_time_ms`; renewals end at `max_time_ms`.
    Principals are as in "User:alice"."""

    token_id: str
    """The token's id, which is the user name of a login with it."""
    hmac: str = field(repr=False)
    """The token's HMAC in base64, which is the password of a login with it."""
    owner: str
    requester: str
    """The principal that requested the token; other than the owner only if it may make tokens for others (KIP-373)."""
    renewers: tuple[str, ...]
    """Other principals that may renew and expire it."""
    issue_time_ms: int
    expiry_time_ms: int
    max_time_ms: int


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group as ListGroups reports it, with the node that coordinates it; `state` and `type` are "" where the broker
    does not report them (before Kafka 2.6 and 3.7)."""

    group_id: str
    coordinator_id: int
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a group, and the partitions that it owns now."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group of either protocol. `type` is "classic" or "consumer" (KIP-848); `epoch` is -1 for a classic group."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int
    coordinator_id: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in one partition. An offset is None where nothing is committed.

    `lag` counts offsets from the committed one (or the first of the partition) to `log_end_offset`, markers included,
    as Kafka's own tool does. What lies at and above `last_stable_offset` waits for open transactions.
    """

    topic_partition: TopicPartition
    committed_offset: int | None
    last_stable_offset: int
    log_end_offset: int
    lag: int
    member: MemberDescription | None
    """The member that reads the partition now."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition's leader keeps of one producer; -1 where there is none: no coordinator has written a marker, the
    producer has written nothing yet, no transaction is open."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int
    """Where its open transaction begins."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transaction as its coordinator describes it; `start_time_ms` is milliseconds since the epoch, -1 if none is
    open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int = -1


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One transactional id as ListTransactions reports it, with the node that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str
