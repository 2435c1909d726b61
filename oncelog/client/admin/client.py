"""Topics, settings, records, rights, groups, offsets and transactions of a cluster.

Owns: the public names, what they mean and raise, the deadline of each call. Does not own: the requests (the other
modules of this room, each imported at its first use, as loading costs a command time), the values (`descriptions`),
retries (`wire.cluster`). Invariant: nothing but `create_topics` creates a topic: look-ups ask for metadata without
auto-creation.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from oncelog.client.admin.settings import AdminSettings
from oncelog.client.values.arguments import ConfigValue, offsets_of, partitions_of
from oncelog.client.values.errors import ConfigError, check_each, check_options
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import OffsetAndMetadata, OffsetAndTimestamp, Offsets, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.security import security_of

if TYPE_CHECKING:
    from datetime import datetime

    from oncelog.client.admin.descriptions import (
        Acl,
        AclFilter,
        ClusterDescription,
        ConfigEntry,
        DelegationToken,
        GroupDescription,
        ListedGroup,
        ListedTransaction,
        LogDirDescription,
        NewTopic,
        PartitionLag,
        ProducerState,
        QuorumDescription,
        TopicDescription,
        TransactionDescription,
    )
    from oncelog.client.admin.security import (
        ClientQuota,
        QuotaEntity,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from oncelog.client.admin.share_descriptions import ShareGroupDescription, SharePartitionOffset
    from oncelog.client.admin.streams_descriptions import StreamsGroupDescription
    from oncelog.client.options.option_types import AdminOptions
    from oncelog.client.values.records import IsolationLevel


@lists_options(AdminSettings)
class Admin:
    """Manages topics, and inspects configs, offsets and transactions.

        async with Admin("host:9092") as admin:
            await admin.create_topics(NewTopic("topic", partition_count=3))

    `AdminSettings` lists the options. `default_api_timeout_ms` limits a call with all its retries. Every call raises
    RequestTimedOut or ConnectionLost if no broker responds in time, and the KafkaError of an error response; it raises
    InvalidState once closed, and outside the event loop of the first call.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **options: "Unpack[AdminOptions]"
    ) -> None:
        check_options("Admin", AdminSettings, options)
        settings = AdminSettings(**options)
        self._api_timeout_ms = settings.default_api_timeout_ms
        self._bootstrap_timeout_ms = settings.bootstrap_timeout_ms
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
        )
        self._lifetime = Lifetime("Admin")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close)
            await self._cluster.bootstrap(self._deadline(), self._bootstrap_timeout_ms)
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect. Leaving the `async with` block calls it."""
        self._lifetime.check_loop()
        self._lifetime.close()
        await self._cluster.close()

    # --- topics -------------------------------------------------------------------------------------------------------

    async def create_topics(self, *topics: "NewTopic | str", exist_ok: bool = False) -> None:
        """Create topics, by name or as NewTopic, and wait for their leaders.

            await admin.create_topics("events", NewTopic("totals", partition_count=3), exist_ok=True)

        Raises ConfigError with code TOPIC_ALREADY_EXISTS (with `exist_ok`, existing topics are left unchanged),
        INVALID_CONFIG and the like.
        """
        from oncelog.client.admin import topics as admin_topics

        await admin_topics.create(self._cluster, topics, self._deadline(), exist_ok=exist_ok)

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with their records. Raises UnknownTopic for the first that does not exist."""
        from oncelog.client.admin import topics as admin_topics

        await admin_topics.delete(self._cluster, names, self._deadline())

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names of all topics, sorted; with `include_internal`, also Kafka's own (__consumer_offsets, ...)."""
        response = await self._cluster.refresh(None, self._deadline())
        return sorted(
            topic.name for topic in response.topics if topic.name and (include_internal or not topic.is_internal)
        )

    async def describe_topics(self, *names: str) -> "list[TopicDescription]":
        """Describe these topics, or all. Raises UnknownTopic if one does not exist."""
        from oncelog.client.admin import topics as admin_topics

        return await admin_topics.describe(self._cluster, names, self._deadline())

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise the number of partitions of topics to these counts; they never shrink.

            await admin.create_partitions({"events": 6})

        Records with a key may then go to another partition than before. Raises INVALID_PARTITIONS (a ConfigError) if a
        topic has as many already, and UnknownTopic.
        """
        from oncelog.client.admin import partitions as admin_partitions

        await admin_partitions.create(self._cluster, counts, self._deadline(), validate_only=validate_only)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below these offsets (-1: all that are readable); returns where each partition starts now.

            await admin.delete_records({TopicPartition("events", 0): 1_000})

        Raises OFFSET_OUT_OF_RANGE beyond the end, POLICY_VIOLATION for a topic that is only compacted.
        """
        from oncelog.client.admin import partitions as admin_partitions

        return await admin_partitions.delete_records(self._cluster, offsets, self._deadline())

    # --- settings, nodes ----------------------------------------------------------------------------------------------

    async def describe_configs(
        self, *, topic: str | None = None, node_id: int | None = None, group: str | None = None
    ) -> dict[str, str | None]:
        """The values of all settings of a topic, a group or a node (default: any node).

            configs = await admin.describe_configs(topic="events")
            retention_ms = int(configs["retention.ms"])

        A value is None for a secret. Raises UnknownTopic if the topic does not exist.
        """
        entries = await self.describe_config_entries(topic=topic, node_id=node_id, group=group)
        return {each.name: each.value for each in entries}

    async def describe_config_entries(
        self, *, topic: str | None = None, node_id: int | Literal["all"] | None = None, group: str | None = None
    ) -> "list[ConfigEntry]":
        """As `describe_configs`, with the source of each value. Of node "all": what is set for all nodes at once."""
        from oncelog.client.admin import configs as admin_configs

        return await admin_configs.describe(self._cluster, topic, node_id, group, self._deadline())

    async def alter_configs(
        self,
        values: Mapping[str, ConfigValue] = {},
        *,
        topic: str | None = None,
        node_id: int | Literal["all"] | None = None,
        group: str | None = None,
        reset: Iterable[str] = (),
        append: Mapping[str, ConfigValue] = {},
        subtract: Mapping[str, ConfigValue] = {},
        validate_only: bool = False,
    ) -> None:
        """Set settings of a topic, a group, a node or all nodes, and reset others to their defaults; all others stay
        (KIP-339). `append` and `subtract` change lists.

            await admin.alter_configs({"retention.ms": 60_000}, topic="events", reset=["segment.bytes"])

        All of it takes effect, or nothing. Raises INVALID_CONFIG and the like as ConfigError, and UnknownTopic.
        """
        from oncelog.client.admin import configs as admin_configs

        await admin_configs.alter(
            self._cluster,
            topic,
            node_id,
            group,
            self._deadline(),
            values=values,
            reset=reset,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
        )

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> "ClusterDescription":
        """The cluster id, controller, nodes and features; with `include_fenced_brokers` also nodes that have ended."""
        from oncelog.client.admin import cluster as admin_cluster

        return await admin_cluster.describe_cluster(
            self._cluster, self._deadline(), include_fenced_brokers=include_fenced_brokers
        )

    async def describe_quorum(self) -> "QuorumDescription":
        """The quorum of the cluster's metadata log, as Java's describeMetadataQuorum (KIP-595, KIP-836): which node
        leads, and how far the others are.

            quorum = await admin.describe_quorum()
            behind = {each.node_id: quorum.high_watermark - each.log_end_offset for each in quorum.observers}

        Raises CLUSTER_AUTHORIZATION_FAILED, and UNSUPPORTED_VERSION with a broker that has no such quorum.
        """
        from oncelog.client.admin import quorum

        return await quorum.describe_quorum(self._cluster, self._deadline())

    async def describe_log_dirs(self, *node_ids: int) -> "list[LogDirDescription]":
        """The data directories of these nodes (default: all), and the size of each partition in them."""
        from oncelog.client.admin import cluster as admin_cluster

        return await admin_cluster.describe_log_dirs(self._cluster, node_ids, self._deadline())

    async def update_features(
        self, levels: Mapping[str, int], *, allow_downgrade: bool = False, validate_only: bool = False
    ) -> None:
        """Finalize these feature levels, all or none (KIP-584); `describe_cluster` has the current ones.

            await admin.update_features({"transaction.version": 2})

        Raises INVALID_UPDATE_VERSION or FEATURE_UPDATE_FAILED as ConfigError.
        """
        from oncelog.client.admin import cluster as admin_cluster

        await admin_cluster.update_features(
            self._cluster, levels, self._deadline(), allow_downgrade=allow_downgrade, validate_only=validate_only
        )

    # --- users, quotas, rights, tokens --------------------------------------------------------------------------------

    async def describe_user_scram_credentials(self, *users: str) -> dict[str, dict[str, int]]:
        """The iterations of each mechanism that these users (default: all) have credentials for, by user: `{"alice":
        {"SCRAM-SHA-512": 8192}}`. Users without credentials are left out."""
        from oncelog.client.admin import security as admin_security

        return await admin_security.describe_users(self._cluster, users, self._deadline())

    async def alter_user_scram_credentials(
        self, *alterations: "UserScramCredentialUpsertion | UserScramCredentialDeletion"
    ) -> None:
        """Make, change and delete the passwords of users (KIP-554). Only what they are salted to is sent.

            await admin.alter_user_scram_credentials(UserScramCredentialUpsertion("alice", "secret"))

        Raises UNACCEPTABLE_CREDENTIAL, RESOURCE_NOT_FOUND or, for a user who is named twice, DUPLICATE_RESOURCE (each a
        ConfigError) for the first that cannot be changed; others may have been.
        """
        from oncelog.client.admin import security as admin_security

        await admin_security.alter_users(self._cluster, alterations, self._deadline())

    async def describe_client_quotas(
        self, entity: Mapping[str, str | None] = {}, *, any_of: Sequence[str] = (), strict: bool = False
    ) -> "list[ClientQuota]":
        """The quotas that are set for this entity, and for any name of the types in `any_of`; with `strict`, not those
        that other types are part of. By default all.

            await admin.describe_client_quotas({"user": "alice"}, any_of=["client-id"])
        """
        from oncelog.client.admin import security as admin_security

        return await admin_security.describe_quotas(self._cluster, entity, any_of, self._deadline(), strict=strict)

    async def alter_client_quotas(
        self, entity: "QuotaEntity", values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity (KIP-546), and remove those whose value is None; others stay.

            await admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": 1_048_576})

        Raises INVALID_REQUEST (a ConfigError) for a name or a value that the broker does not take.
        """
        from oncelog.client.admin import security as admin_security

        await admin_security.alter_quotas(self._cluster, entity, values, self._deadline(), validate_only=validate_only)

    async def create_acls(self, *acls: "Acl") -> None:
        """Create rules; those that exist already stay. Raises SECURITY_DISABLED (a ConfigError) without an authorizer.

        await admin.create_acls(Acl("User:alice", "READ", "TOPIC", "orders"))
        """
        from oncelog.client.admin import acls as admin_acls

        await admin_acls.create(self._cluster, acls, self._deadline())

    async def describe_acls(self, selected: "AclFilter | None" = None) -> "list[Acl]":
        """The rules that the filter selects (default: all), sorted by resource."""
        from oncelog.client.admin import acls as admin_acls
        from oncelog.client.admin.descriptions import AclFilter

        return await admin_acls.describe(self._cluster, selected or AclFilter(), self._deadline())

    async def delete_acls(self, *filters: "AclFilter") -> "list[Acl]":
        """Delete the rules that any of the filters selects; returns them, sorted by resource."""
        from oncelog.client.admin import acls as admin_acls

        return await admin_acls.delete(self._cluster, filters, self._deadline())

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1
    ) -> "DelegationToken":
        """A token by which others log in as this client, or as `owner` (KIP-48), until the broker's longest time or
        `max_lifetime_ms`. `renewers` may renew and expire it.

            token = await admin.create_delegation_token(renewers=["User:scheduler"])

        Raises DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and the like as ConfigError.
        """
        from oncelog.client.admin import tokens as admin_tokens

        return await admin_tokens.create(self._cluster, owner, renewers, max_lifetime_ms, self._deadline())

    async def renew_delegation_token(self, hmac: str, *, renew_period_ms: int = -1) -> int:
        """Let a token count for this time from now (default: as long as the broker lets it); returns its new expiry, in
        milliseconds since the epoch. `hmac` is that of a DelegationToken."""
        from oncelog.client.admin import tokens as admin_tokens

        return await admin_tokens.renew(self._cluster, hmac, renew_period_ms, self._deadline())

    async def expire_delegation_token(self, hmac: str, *, expiry_period_ms: int = -1) -> int:
        """Remove a token, or let it expire after `expiry_period_ms`; returns its expiry, in milliseconds since the
        epoch."""
        from oncelog.client.admin import tokens as admin_tokens

        return await admin_tokens.expire(self._cluster, hmac, expiry_period_ms, self._deadline())

    async def describe_delegation_tokens(self, *owners: str) -> "list[DelegationToken]":
        """The tokens that this client may see, or those of them that one of `owners` owns or may renew, sorted by owner
        and time."""
        from oncelog.client.admin import tokens as admin_tokens

        return await admin_tokens.describe(self._cluster, owners, self._deadline())

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: "str | datetime | int" = "latest",
        *,
        isolation_level: "IsolationLevel" = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up offsets; `at` is "latest" (the last stable offset at read_committed, else the high watermark),
        "earliest", "max_timestamp", "log_end" (with what no reader may see yet), or a time: a datetime with a time
        zone, or milliseconds since the epoch.

            ends = await admin.list_offsets([TopicPartition("events", 0)])

        An offset is -1 if no record matches. Raises UnknownTopic, and ConfigError for a partition that a topic lacks.
        """
        from oncelog.client.admin.calls import require_topics
        from oncelog.client.wire import offsets

        when = offsets.timestamp_of(at)
        wanted, deadline = dict.fromkeys(partitions_of("list_offsets", partitions), when), self._deadline()
        await require_topics(self._cluster, {each.topic for each in wanted}, deadline)
        replica_id = offsets.DEBUGGING_REPLICA if at == "log_end" else offsets.CONSUMER
        return await offsets.list_offsets(self._cluster, wanted, isolation_level, deadline, replica_id)

    # --- groups -------------------------------------------------------------------------------------------------------

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> "list[ListedGroup]":
        """The groups of all nodes that pass the filters: in one of `states` ("Stable", "Empty", ...), of one of `types`
        ("classic", "consumer", "share", "streams"). Raises ConfigError for other names, UNSUPPORTED_VERSION before
        Kafka 2.6 and 3.7."""
        from oncelog.client.admin import groups as admin_groups

        return await admin_groups.list_groups(self._cluster, states, types, self._deadline())

    async def describe_groups(self, *group_ids: str) -> "list[GroupDescription]":
        """State and members of these groups, classic or KIP-848. Raises GROUP_ID_NOT_FOUND (a ConfigError), also for
        share and streams groups, which have methods of their own."""
        from oncelog.client.admin import groups as admin_groups

        check_each("describe_groups", group_ids, str)
        return [await admin_groups.describe_group(self._cluster, each, self._deadline()) for each in group_ids]

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups of any type without members, with their offsets. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP
        (a ConfigError) for the first that it cannot delete."""
        from oncelog.client.admin import groups as admin_groups

        check_each("delete_groups", group_ids, str)
        for group_id in group_ids:
            await admin_groups.delete_group(self._cluster, group_id, self._deadline())

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions (default: all); those without one are left out. With
        `require_stable` it waits for open transactions that hold offsets of the group (KIP-447). A group that does not
        exist has no offsets."""
        from oncelog.client.wire.offsets import fetch_committed

        return await fetch_committed(
            self._cluster,
            group_id,
            None if partitions is None else partitions_of("list_group_offsets", partitions),
            self._deadline(),
            require_stable=require_stable,
        )

    async def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Set committed offsets of a group without members; a group that does not exist is created.

            await admin.alter_group_offsets("readers", {TopicPartition("events", 0): 42})

        Raises UNKNOWN_MEMBER_ID (a ConfigError) while the group has members, and UnknownTopic.
        """
        from oncelog.client.admin import groups as admin_groups

        chosen = offsets_of("alter_group_offsets", offsets)
        await admin_groups.alter_offsets(self._cluster, group_id, chosen, self._deadline())

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group that reads none of these topics. Raises GROUP_ID_NOT_FOUND,
        GROUP_SUBSCRIBED_TO_TOPIC or NON_EMPTY_GROUP (a ConfigError)."""
        from oncelog.client.admin import groups as admin_groups

        await admin_groups.delete_offsets(
            self._cluster, group_id, partitions_of("delete_group_offsets", partitions), self._deadline()
        )

    async def list_group_lag(self, group_id: str) -> "list[PartitionLag]":
        """How far the group is behind in each partition that it has an offset of or reads now, sorted. Raises
        GROUP_ID_NOT_FOUND (a ConfigError)."""
        from oncelog.client.admin import groups as admin_groups

        return await admin_groups.list_lag(self._cluster, group_id, self._deadline())

    # --- share and streams groups -------------------------------------------------------------------------------------

    async def describe_share_groups(self, *group_ids: str) -> "list[ShareGroupDescription]":
        """State, members and assignments of these share groups (KIP-932). Raises GROUP_ID_NOT_FOUND (a ConfigError),
        also for a group of another type, and UNSUPPORTED_VERSION where the cluster has no share groups."""
        from oncelog.client.admin import share_groups as admin_share_groups

        check_each("describe_share_groups", group_ids, str)
        return [await admin_share_groups.describe_group(self._cluster, each, self._deadline()) for each in group_ids]

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> "dict[TopicPartition, SharePartitionOffset]":
        """Where a share group is in these partitions (default: all that it has read or is to read), and its lag. No
        error: a group that does not exist has no offsets."""
        from oncelog.client.admin import share_groups as admin_share_groups

        wanted = None if partitions is None else partitions_of("list_share_group_offsets", partitions)
        return await admin_share_groups.list_offsets(self._cluster, group_id, wanted, self._deadline())

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group without members start at these offsets. What it has acknowledged from there on is
        forgotten. A group that does not exist is created.

            await admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 0})

        Raises NON_EMPTY_GROUP (a ConfigError), UnknownTopic, and GROUP_ID_NOT_FOUND for a group of another type.
        """
        from oncelog.client.admin import share_groups as admin_share_groups

        checked = offsets_of("alter_share_group_offsets", offsets)
        wanted = {place: each.offset for place, each in checked.items()}
        await admin_share_groups.alter_offsets(self._cluster, group_id, wanted, self._deadline())

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Forget where a share group without members is in these topics, with what it has acknowledged there. Raises
        NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND (a ConfigError), UnknownTopic, and UNKNOWN_TOPIC_OR_PARTITION for a topic
        that the group has no offsets of."""
        from oncelog.client.admin import share_groups as admin_share_groups

        if isinstance(topics, str):
            raise ConfigError(f"topics={topics!r}: must be a list of names", hint=f"topics=[{topics!r}]")
        await admin_share_groups.delete_offsets(self._cluster, group_id, list(topics), self._deadline())

    async def describe_streams_groups(self, *group_ids: str) -> "list[StreamsGroupDescription]":
        """State, topology, members and tasks of these streams groups (KIP-1071). Raises as `describe_share_groups`.

        Their offsets are committed ones: `list_group_offsets`, `alter_group_offsets`, `list_group_lag`.
        """
        from oncelog.client.admin import streams_groups as admin_streams_groups

        check_each("describe_streams_groups", group_ids, str)
        return [await admin_streams_groups.describe_group(self._cluster, each, self._deadline()) for each in group_ids]

    # --- transactions -------------------------------------------------------------------------------------------------

    async def describe_producers(self, topic_partition: TopicPartition) -> "list[ProducerState]":
        """The producers that the partition's leader keeps state for. Raises as `list_offsets`."""
        from oncelog.client.admin import transactions as admin_transactions

        return await admin_transactions.describe_producers(self._cluster, topic_partition, self._deadline())

    async def list_transactions(self, *, states: Sequence[str] = ()) -> dict[str, str]:
        """States by transactional id, from all coordinators: `{"mover": "Ongoing"}`. `states` filters, as in
        `find_transactions`."""
        return {each.transactional_id: each.state for each in await self.find_transactions(states=states)}

    async def find_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> "list[ListedTransaction]":
        """The transactional ids of all coordinators that pass every filter: in one of `states` ("Ongoing",
        "PrepareCommit", ...), of one of `producer_ids`, running for longer than `duration_ms`, and whose whole id
        matches `pattern`, a regular expression in the broker's dialect (RE2 in Kafka). Raises ConfigError for other
        states, and FatalError if the broker does not know a filter."""
        from oncelog.client.admin import transactions as admin_transactions

        return await admin_transactions.find_transactions(
            self._cluster, states, producer_ids, duration_ms, pattern, self._deadline()
        )

    async def describe_transaction(self, transactional_id: str) -> "TransactionDescription":
        """State, producer and partitions of one transactional id. Raises TRANSACTIONAL_ID_NOT_FOUND as a
        ConfigError."""
        from oncelog.client.admin import transactions as admin_transactions

        return await admin_transactions.describe_transaction(self._cluster, transactional_id, self._deadline())

    async def abort_on_partition(
        self, topic_partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an ABORT marker to one partition, for a hanging transaction that no coordinator knows any more.

        Producer id, epoch and coordinator epoch are those that `describe_producers` reports; no coordinator is
        involved. Raises INVALID_PRODUCER_EPOCH (as ProducerFenced) and TRANSACTION_COORDINATOR_FENCED for stale epochs.
        """
        from oncelog.client.admin import transactions as admin_transactions

        producer = (producer_id, producer_epoch, coordinator_epoch)
        await admin_transactions.abort_on_partition(self._cluster, topic_partition, *producer, self._deadline())

    async def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """Abort the open transaction of a transactional id and fence its producer. Returns the new producer id and
        epoch, which no producer uses."""
        from oncelog.client.admin import transactions as admin_transactions

        return await admin_transactions.fence_producer(self._cluster, transactional_id, self._deadline())

    # ------------------------------------------------------------------------------------------------------------------

    def _deadline(self) -> Deadline:
        """The end of a call that begins: every call has one, and the first opens the client."""
        if self._lifetime.loop is None:
            self._lifetime.open()
        self._lifetime.check_loop()
        return Deadline.after(self._api_timeout_ms)
