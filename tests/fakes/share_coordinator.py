"""A share coordinator over logs in memory, whose topics and clock the test moves."""

from collections.abc import Set
from typing import Any
from uuid import UUID

from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.coordinator.share.coordinator import ShareCoordinator, ShareStateLimits
from oncelog.broker.coordinator.share.records import Snapshot
from oncelog.broker.coordinator.share.shard import ShareShard
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import SHARE_GROUP_STATE
from tests.fakes.coordinator_log import MemoryCoordinatorLog, MemoryTopic, no_failure
from tests.fakes.virtual_time import VirtualTime

TOPIC_IDS = UUID(int=1), UUID(int=2)
PARTITIONS = 2
UPDATES_PER_SNAPSHOT = 3
COLD_MS, PRUNE_MS = 300_000, 100_000


class FakeTopics:
    """See `ShareTopics`: every topic has two partitions."""

    def __init__(self, logs: MemoryTopic) -> None:
        self._logs = logs
        self.ids = set(TOPIC_IDS)
        self.being_removed: dict[UUID, str] = {}
        self.made: Completion[None] = Completion.of(None)
        self.refuses: KafkaError | None = None
        self.pruned: list[int] = []

    def ensure_state_topic(self) -> Completion[None]:
        if self.refuses is not None:
            raise self.refuses
        return self.made

    def partition_count(self, topic_id: UUID) -> int:
        return PARTITIONS if topic_id in self.ids else 0

    def removed(self, name: str) -> Set[UUID]:
        return {topic_id for topic_id, removed in self.being_removed.items() if removed == name}

    def is_over(self, topic_id: UUID) -> bool:
        return topic_id not in self.ids and topic_id not in self.being_removed

    def delete_records(self, partition: int, before_offset: int) -> Completion[None]:
        log = self._logs.logs[partition]
        if before_offset > log.durable_end_offset:
            return Completion.failed(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE))
        log.prune(before_offset)
        self.pruned.append(before_offset)
        return Completion.of(None)


class Coordinating:
    """A life of the coordinator; `restarted` gives the next one on what is durable."""

    def __init__(
        self,
        log: MemoryCoordinatorLog | None = None,
        time: VirtualTime | None = None,
        updates_per_snapshot: int = UPDATES_PER_SNAPSHOT,
    ) -> None:
        self.time = time or VirtualTime()
        self.log = log or MemoryCoordinatorLog()
        topic = MemoryTopic(self.log)
        self.topics = FakeTopics(topic)
        self._updates_per_snapshot = updates_per_snapshot
        loading = CoordinatorLoading(self.time)
        self.runtime: CoordinatorRuntime[ShareShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE,
            topic,
            lambda partition, _: ShareShard(partition),
            self.time,
            loading,
            lambda *_: 0,
            no_failure,
            needs_every_record=True,
        )
        limits = ShareStateLimits(updates_per_snapshot, PRUNE_MS, COLD_MS)
        slices = Slices(self.time)
        self.coordinator = ShareCoordinator(self.runtime, self.topics, self.time, limits, slices.run_own)
        self.runtime.gain_all()
        loading.begin()

    @property
    def shard(self) -> ShareShard:
        return self.runtime.shard("any")

    def stored(self) -> dict[SharePartitionKey, tuple[Snapshot, int, int, int]]:
        """Everything that is known of every share-partition, but for which records say it."""
        return {
            key: (share.snapshot, share.update_count, share.state_epoch, share.leader_epoch)
            for key, share in self.shard.all()
        }

    def restarted(self) -> "Coordinating":
        time = VirtualTime(self.time.wall_ms())
        after = Coordinating(self.log.crashed(), time, self._updates_per_snapshot)
        after.topics.ids = set(self.topics.ids)
        return after


def code_of(completion: Completion[Any]) -> ErrorCode:
    """The error of what was asked; NONE if there is none."""
    assert completion.done
    return completion.error.code if isinstance(completion.error, KafkaError) else ErrorCode.NONE
