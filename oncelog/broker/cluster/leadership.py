"""Leadership: which node leads a partition, in which leader epoch. Everything else asks here.

Owns: the leader and epoch of each partition, and how an epoch follows from the metadata log. Does not own: the records
(`broker.cluster.metadata_log`), where in a log an epoch began (`broker.log.partition_log`), the check of a client's
epoch (`broker.cluster.leader_epoch`).
Invariants
- A start leads every existing partition. It is a new leadership: one RegisterBrokerRecord raises the epochs of all
  partitions at once, however many there are, and is durable before a batch carries such an epoch. While the disk has no
  room for it, logs can be read as the last start left them, and not appended to.
- A partition that is lost at run time has no leader that this node knows of, until it is gained again: in a new epoch,
  once the PartitionChangeRecord of that is durable.
- The epochs of a partition only increase, and no two runs of the broker share one. A new partition has epoch 0.

Code that depends on leadership asks here each time, or watches. KIP-101, KIP-320, KIP-631.
"""

from typing import Protocol
from uuid import UUID

from oncelog.broker.cluster.metadata_log import MetadataLog, Topic
from oncelog.broker.cluster.metadata_records import Leader, Registration, spans
from oncelog.broker.log.leader_epochs import FIRST_EPOCH
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler
from oncelog.protocol.topics import METADATA_TOPIC

_RETRY_MS = 1_000
NO_LEADER = -1
"""In the place of a node id."""


class LeadershipListener(Protocol):
    def on_epochs_changed(self) -> None:
        """The leader epochs of this start are durable."""

    def on_lost(self, topic: str, partition: int) -> None:
        """This node no longer leads the partition."""

    def on_gained(self, topic: str, partition: int) -> None:
        """It leads it again, in an epoch that is durable."""


class Leadership:
    def __init__(self, node_id: int, metadata: MetadataLog, scheduler: Scheduler) -> None:
        self.node_id = node_id
        """This node. For the leader, coordinator or controller use the methods below, even while it is always this one.
        """
        self.leader_node_id = node_id
        """The node that leads every partition that is not lost, and the metadata log: this one, unless it stands by;
        `NO_LEADER` if that is not known."""
        self.is_ours = True
        """Whether this node leads the partitions that are not lost: False while it stands by, even if it is named as
        the leader."""
        self.is_durable = False
        """Whether the epochs of this start are durable: before that nothing may be appended."""
        self._metadata = metadata
        self._state = metadata.state
        self._scheduler = scheduler
        self._listeners: list[LeadershipListener] = []
        self._lost: dict[UUID, set[int]] = {}
        """The partitions of each topic that this node does not lead."""

    def begin(self, incarnation_id: UUID, *, may_be_older: bool = False) -> None:
        """Lead every partition, in a new epoch, once that is durable. `may_be_older`: starts of later than the newest
        that is known may have given out epochs and producer ids, see `Durability.may_be_older`."""

        def on_written(written: Completion[None]) -> None:
            if written.error is not None:
                self._scheduler.call_later(_RETRY_MS, lambda: self.begin(incarnation_id, may_be_older=may_be_older))
                return
            self.is_durable = True
            for listener in self._listeners:
                listener.on_epochs_changed()

        self._metadata.register(self.node_id, incarnation_id, may_be_older=may_be_older).then(on_written)

    def watch(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def lose(self, topic: str, partition: int) -> None:
        """Another node leads a partition, as of now."""
        known = self._state.topics.get(topic)
        if known is None or not self.leads(known, partition):
            return
        self._lost.setdefault(known.topic_id, set()).add(partition)
        for listener in self._listeners:
            listener.on_lost(topic, partition)

    def gain(self, topic: str, partition: int) -> Completion[None]:
        """Lead a partition that was lost, in a new epoch; completes once that is durable. Fails with KafkaError if it
        cannot be written."""
        known = self._state.topics.get(topic)
        if known is None or self.leads(known, partition):
            return Completion.of(None)

        def gained(_: None) -> None:
            lost = self._lost.get(known.topic_id, set())
            if partition in lost:
                lost.remove(partition)
                for listener in self._listeners:
                    listener.on_gained(topic, partition)

        return self._metadata.change_leader(known.topic_id, (partition,), self.node_id).map(gained)

    def leads(self, topic: Topic, partition: int) -> bool:
        """Whether this node leads a partition that exists."""
        return self.is_ours and partition not in self._lost.get(topic.topic_id, ())

    @property
    def registration(self) -> Registration:
        """The newest start of this node in the metadata log."""
        record = self._state.registration
        return Registration(self.node_id, -1 if record is None else record.broker_epoch)

    @property
    def replica_node_ids(self) -> tuple[int]:
        """The replicas of every partition that is not lost: the leader, or this node while no leader is known."""
        return (self.node_id if self.leader_node_id == NO_LEADER else self.leader_node_id,)

    @property
    def controller(self) -> Leader:
        """The leader of the metadata log."""
        return Leader(self.leader_node_id, self._metadata.leader_epoch)

    @property
    def of_new_partitions(self) -> Leader:
        return Leader(self.node_id, FIRST_EPOCH)

    def leader_of(self, topic: str, partition: int) -> Leader | None:
        """Return the leader of a partition; None if it does not exist (any more)."""
        known = self._state.topics.get(topic)
        if known is None:
            return self.controller if (topic, partition) == (METADATA_TOPIC, 0) else None
        if not 0 <= partition < known.partition_count:
            return None
        return self.leaders_of(known, range(partition, partition + 1))[0]

    def leaders_of(self, topic: Topic, partitions: range) -> list[Leader]:
        """The leader of each of these partitions, which must exist, in order; `NO_LEADER` where it is not known."""
        leaders: list[Leader] = []
        for span, origin in spans(topic.epoch_origins, partitions):
            leaders += [Leader(self.leader_node_id, origin + self._state.epochs_of_starts)] * len(span)
        for partition in self._lost.get(topic.topic_id, ()):
            if partition in partitions:
                at = partition - partitions.start
                leaders[at] = Leader(NO_LEADER, leaders[at].epoch)
        return leaders

    def node_of(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition, `NO_LEADER` if that is not known; None if the partition does not exist."""
        leader = self.leader_of(topic, partition)
        return None if leader is None else leader.node_id

    def epoch_of(self, topic: str, partition: int) -> int | None:
        """The epoch in which this node leads a partition; None if it does not."""
        leader = self.leader_of(topic, partition)
        return leader.epoch if leader is not None and leader.node_id == self.node_id else None
