"""The share-partitions in use, and the sessions of the members that use them.

Owns: which share-partitions are in use, and what the end of a session means for them. Does not own: one share-partition
(`broker.sharing.partition_life`), one request (`broker.sharing.fetch`, `broker.handlers`).
Invariants
- A share-partition has one life at a time: as long as its log is led here and a member of its group has a session.
- What a member holds is available again in the turn in which its session ends.

KIP-932, Kafka's SharePartitionManager and SharePartitionCache.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.sharing.failures import FailedDeliveries
from oncelog.broker.sharing.partition_life import SharePartitionLife, group_isolation
from oncelog.broker.sharing.session_cache import ShareSessionCache
from oncelog.broker.sharing.sessions import PartitionId, ShareSession
from oncelog.broker.sharing.values import AcknowledgementBatch
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.config.group_settings import GroupSettings, ShareGroupConfig
    from oncelog.broker.sharing.ports import SharePeer, SharePersister, SharingParts


class SharePartitionManager:
    def __init__(
        self, parts: "SharingParts", persister: "SharePersister", settings: "GroupSettings[ShareGroupConfig]"
    ) -> None:
        self._parts = parts
        self._persister = persister
        self.settings = settings
        self.sessions = ShareSessionCache(lambda: settings.of("").max_share_sessions, self._on_session_ended)
        self.failures = FailedDeliveries()
        self._lives: dict[str, dict[PartitionId, SharePartitionLife]] = {}
        """The lives of share-partitions, by group."""

    @property
    def partition_count(self) -> int:
        """How many share-partitions are in use."""
        return sum(map(len, self._lives.values()))

    def isolation(self, group_id: str) -> FetchIsolation:
        """Return up to where the group reads now."""
        return group_isolation(self.settings.of(group_id))

    # -- share-partitions

    def partition(self, group_id: str, partition: PartitionId) -> SharePartitionLife:
        """Return the life of a share-partition, which begins with this call if there is none. Raises KafkaError if
        there is no such partition here."""
        life = self.find(group_id, partition)
        if life is not None:
            return life
        topics = self._parts.topics
        topic = topics.by_id(partition.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = topics.partition(topic.name, partition.partition)
        key = SharePartitionKey(group_id, partition.topic_id, partition.partition)
        life = SharePartitionLife(
            key, log, self._parts, self._persister, self.settings, self.failures, self._on_life_ended
        )
        self._lives.setdefault(group_id, {})[partition] = life
        life.begin()
        return life

    def find(self, group_id: str, partition: PartitionId) -> SharePartitionLife | None:
        """Return the life of a share-partition; None if it is not in use."""
        return self._lives.get(group_id, {}).get(partition)

    def find_by_key(self, key: SharePartitionKey) -> SharePartitionLife | None:
        """Do as `find`."""
        return self.find(key.group_id, PartitionId(key.topic_id, key.partition))

    def known(self, group_id: str) -> list[SharePartitionKey]:
        """Return the share-partitions of a group that are in use, and those with records that have failed."""
        in_use = [SharePartitionKey(group_id, *each) for each in self._lives.get(group_id, {})]
        return list(dict.fromkeys((*in_use, *self.failures.keys(group_id))))

    def acknowledge(
        self, group_id: str, member_id: str, partition: PartitionId, batches: Sequence[AcknowledgementBatch]
    ) -> Completion[None]:
        """Completes once the acknowledgement is durable. Fails with KafkaError; if at once, nothing has changed."""
        life = self.find(group_id, partition)
        if life is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Completion.failed(KafkaError(unknown, unknown.text))
        return life.acknowledge(member_id, batches)

    # -- sessions

    def follow(self, peer: "SharePeer") -> None:
        """End the sessions that this connection has opened together with it."""
        if peer.on_left is None:
            peer.on_left = partial(self.sessions.on_disconnected, peer)

    def close(self) -> None:
        """End everything: share groups are not enabled any more. Locks and sessions would mean nothing if they were
        enabled again."""
        self.sessions.close_all()
        for group_id in tuple(self._lives):
            self._end_group(group_id)

    def on_reset(self, key: SharePartitionKey) -> None:
        """Its state has begun again, or is deleted: what was in flight is over."""
        self.failures.forget(key)
        life = self.find_by_key(key)
        if life is not None:
            life.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _on_session_ended(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        # Not only those in the session: it may hold records of partitions that it has forgotten.
        for life in tuple(self._lives.get(group_id, {}).values()):
            life.release(member_id)
        if not self.sessions.has_members(group_id):
            self._end_group(group_id)

    def _end_group(self, group_id: str) -> None:
        for life in tuple(self._lives.get(group_id, {}).values()):
            life.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _on_life_ended(self, life: SharePartitionLife) -> None:
        key = life.key
        of_group = self._lives.get(key.group_id, {})
        partition = PartitionId(key.topic_id, key.partition)
        if of_group.get(partition) is life:
            del of_group[partition]
            if not of_group:
                del self._lives[key.group_id]
