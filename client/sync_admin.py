"""The blocking Admin.

Owns: one method for each of the asyncio one, with the same name and arguments. Does not own: any Kafka logic.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from oncelog.client.admin import Admin as AsyncAdmin
from oncelog.client.descriptions import (
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    ListedGroup,
    ListedTransaction,
    LogDirDescription,
    NewTopic,
    PartitionLag,
    ProducerState,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.loop_thread import Facade
from oncelog.client.offsets import IsolationLevel
from oncelog.client.records import OffsetAndMetadata, OffsetAndTimestamp, Offsets, TopicPartition


class Admin(Facade[AsyncAdmin]):
    """A blocking `oncelog.Admin`.

        with Admin("host:9092") as admin:
            admin.create_topics("topic")

    The arguments and errors are the same.
    """

    def __init__(self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **settings: Any) -> None:
        super().__init__(AsyncAdmin(bootstrap_servers, **settings))

    def create_topics(self, *topics: NewTopic | str, exist_ok: bool = False) -> None:
        """Create topics and wait for their leaders. Raises as `oncelog.Admin.create_topics`."""
        self._run(self._client.create_topics(*topics, exist_ok=exist_ok))

    def delete_topics(self, *names: str) -> None:
        """Delete topics with their records. Raises as `oncelog.Admin.delete_topics`."""
        self._run(self._client.delete_topics(*names))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names of all topics, sorted; with `include_internal`, also Kafka's own."""
        return self._run(self._client.list_topics(include_internal=include_internal))

    def describe_topics(self, *names: str) -> list[TopicDescription]:
        """Describe these topics, or all. Raises as `oncelog.Admin.describe_topics`."""
        return self._run(self._client.describe_topics(*names))

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise the number of partitions of topics to these counts. Raises as `oncelog.Admin.create_partitions`."""
        self._run(self._client.create_partitions(counts, validate_only=validate_only))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below these offsets. Returns and raises as `oncelog.Admin.delete_records`."""
        return self._run(self._client.delete_records(offsets))

    def describe_configs(
        self, *, topic: str | None = None, node_id: int | None = None, group: str | None = None
    ) -> dict[str, str | None]:
        """All settings of a topic, a group or a node (default: any node): name to value, None for secrets."""
        return self._run(self._client.describe_configs(topic=topic, node_id=node_id, group=group))

    def describe_config_entries(
        self, *, topic: str | None = None, node_id: int | Literal["all"] | None = None, group: str | None = None
    ) -> list[ConfigEntry]:
        """As `describe_configs`, with the source of each value."""
        return self._run(self._client.describe_config_entries(topic=topic, node_id=node_id, group=group))

    def alter_configs(
        self,
        values: Mapping[str, str] = {},
        *,
        topic: str | None = None,
        node_id: int | Literal["all"] | None = None,
        group: str | None = None,
        reset: Iterable[str] = (),
        append: Mapping[str, str] = {},
        subtract: Mapping[str, str] = {},
        validate_only: bool = False,
    ) -> None:
        """Set, reset and extend settings. Raises as `oncelog.Admin.alter_configs`."""
        self._run(
            self._client.alter_configs(
                values,
                topic=topic,
                node_id=node_id,
                group=group,
                reset=reset,
                append=append,
                subtract=subtract,
                validate_only=validate_only,
            )
        )

    def describe_cluster(self) -> ClusterDescription:
        """The cluster id, controller, nodes and features."""
        return self._run(self._client.describe_cluster())

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: str | int = "latest",
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up offsets: "latest", "earliest", "max_timestamp" or a time in ms. Raises as
        `oncelog.Admin.list_offsets`."""
        return self._run(self._client.list_offsets(partitions, at, isolation_level=isolation_level))

    def describe_log_dirs(self, *node_ids: int) -> list[LogDirDescription]:
        """The data directories of these nodes (default: all), and the size of each partition in them."""
        return self._run(self._client.describe_log_dirs(*node_ids))

    def update_features(
        self, levels: Mapping[str, int], *, allow_downgrade: bool = False, validate_only: bool = False
    ) -> None:
        """Finalize feature levels. Raises as `oncelog.Admin.update_features`."""
        self._run(self._client.update_features(levels, allow_downgrade=allow_downgrade, validate_only=validate_only))

    def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """The groups of all nodes that pass the filters. Raises as `oncelog.Admin.list_groups`."""
        return self._run(self._client.list_groups(states=states, types=types))

    def describe_groups(self, *group_ids: str) -> list[GroupDescription]:
        """State and members of these groups. Raises as `oncelog.Admin.describe_groups`."""
        return self._run(self._client.describe_groups(*group_ids))

    def delete_groups(self, *group_ids: str) -> None:
        """Delete groups without members, with their offsets. Raises as `oncelog.Admin.delete_groups`."""
        self._run(self._client.delete_groups(*group_ids))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions (default: all); those without one are left out."""
        return self._run(self._client.list_group_offsets(group_id, partitions, require_stable=require_stable))

    def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Set committed offsets of a group without members. Raises as `oncelog.Admin.alter_group_offsets`."""
        self._run(self._client.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group. Raises as `oncelog.Admin.delete_group_offsets`."""
        self._run(self._client.delete_group_offsets(group_id, partitions))

    def list_group_lag(self, group_id: str) -> list[PartitionLag]:
        """How far the group is behind in each partition. Raises as `oncelog.Admin.list_group_lag`."""
        return self._run(self._client.list_group_lag(group_id))

    def describe_producers(self, topic_partition: TopicPartition) -> list[ProducerState]:
        """The producers that the partition's leader keeps state for. Raises as `oncelog.Admin.describe_producers`."""
        return self._run(self._client.describe_producers(topic_partition))

    def list_transactions(self, *, states: Sequence[str] = ()) -> dict[str, str]:
        """States by transactional id, from all coordinators."""
        return self._run(self._client.list_transactions(states=states))

    def find_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids that pass every filter. Raises as `oncelog.Admin.find_transactions`."""
        return self._run(
            self._client.find_transactions(
                states=states, producer_ids=producer_ids, duration_ms=duration_ms, pattern=pattern
            )
        )

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """State, producer and partitions of one transactional id. Raises as `oncelog.Admin.describe_transaction`."""
        return self._run(self._client.describe_transaction(transactional_id))

    def abort_on_partition(
        self, topic_partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an ABORT marker to one partition. Raises as `oncelog.Admin.abort_on_partition`."""
        self._run(self._client.abort_on_partition(topic_partition, producer_id, producer_epoch, coordinator_epoch))

    def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """Abort the open transaction of an id and fence its producer. Returns and raises as
        `oncelog.Admin.fence_producer`."""
        return self._run(self._client.fence_producer(transactional_id))
