"""Makes the share coordinator, once it is needed by a request or its log has records.

Owns: its parts and its limits. Separate from `broker.assembly.coordinators` because it is imported late: few brokers
have share groups.
"""

from collections.abc import Set
from uuid import UUID

from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.coordinator.share.coordinator import ShareCoordinator, ShareStateLimits
from oncelog.broker.coordinator.share.shard import ShareShard
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.topics import SHARE_GROUP_STATE


def assemble_share_coordinator(
    config: BrokerConfig,
    clock: Clock,
    runtime: CoordinatorRuntime[ShareShard],
    topics: Topics,
    metadata: MetadataLog,
    logs: LogManager,
    slices: Slices,
) -> ShareCoordinator:
    limits = ShareStateLimits(
        config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        config.get_int("share.coordinator.state.topic.prune.interval.ms"),
        config.get_int("share.coordinator.cold.partition.snapshot.interval.ms"),
    )
    of_topics = _Topics(topics, metadata, logs)
    coordinator = ShareCoordinator(runtime, of_topics, clock, limits, slices.run_own)
    topics.watch_removals(coordinator.on_topic_removed)
    return coordinator


class _Topics:
    """See `ShareTopics`."""

    def __init__(self, topics: Topics, metadata: MetadataLog, logs: LogManager) -> None:
        self._topics = topics
        self._metadata = metadata
        self._logs = logs
        self._made: Completion[None] = Completion.of(None)

    def ensure_state_topic(self) -> Completion[None]:
        made = self._topics.ensure_internal(SHARE_GROUP_STATE)
        return self._made if made.done else made.map(lambda _: None)

    def partition_count(self, topic_id: UUID) -> int:
        topic = self._topics.by_id(topic_id)
        return 0 if topic is None else topic.partition_count

    def removed(self, name: str) -> Set[UUID]:
        return {topic_id for topic_id, removed in self._metadata.state.removed.items() if removed == name}

    def is_over(self, topic_id: UUID) -> bool:
        state = self._metadata.state
        return topic_id not in state.topics_by_id and topic_id not in state.removed

    def delete_records(self, partition: int, before_offset: int) -> Completion[None]:
        try:
            log = self._topics.partition(SHARE_GROUP_STATE, partition)
        except KafkaError as error:
            return Completion.failed(error)
        return self._logs.delete_records(log, before_offset)
