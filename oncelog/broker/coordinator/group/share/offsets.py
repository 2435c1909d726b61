"""The start offsets of share groups, for administrators: alter, delete, describe; and the end of a group.

Owns: the checks of these requests in Kafka's order, and what is logged first. Does not own: how states are made and
deleted (`lifecycle`), lag (`handlers.describe_share_group_offsets`).
Invariant: nothing is changed in a group that has members.

KIPs: 932, 1226 (lag).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.engine.writer import GroupWriter
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.kind import SHARE_GROUPS
from oncelog.broker.coordinator.group.share.lifecycle import Failures, StateLifecycle
from oncelog.broker.coordinator.group.share.records import StatesChanged
from oncelog.broker.coordinator.group.share.states import KnownStates, TopicStates
from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from oncelog.broker.coordinator.share.values import NO_LEADER_EPOCH, SharePartitionKey, ShareState, topic_id_text
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

UNKNOWN = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text)
NOTHING_TO_DELETE = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")


class OffsetsToAlter(NamedTuple):
    topic_name: str
    start_offsets: Mapping[int, int]
    """The new start offsets, by partition."""


AlterErrors = Mapping[tuple[str, int], KafkaError]
"""Why a partition's offset was not altered, by topic name and partition."""
DeleteErrors = Mapping[str, KafkaError | None]
"""Why a topic's offsets were not deleted, by name; None if they are. Only the topics that count are there."""


class ShareOffsets:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        writer: GroupWriter[ShareGroup],
        topics: TopicCatalog,
        lifecycle: StateLifecycle,
    ) -> None:
        self._runtime = runtime
        self._writer = writer
        self._topics = topics
        self._lifecycle = lifecycle

    # --- altering -----------------------------------------------------------------------------------------------------

    def alter(self, group_id: str, wanted: Sequence[OffsetsToAlter]) -> Completion[AlterErrors]:
        """AlterShareGroupOffsets: set where partitions begin, in a group that may be new. Fails with
        GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and as Kafka with UNKNOWN_SERVER_ERROR for a partition below zero."""
        offsets: dict[UUID, dict[int, int]] = {}
        names: dict[UUID, str] = {}
        errors: dict[tuple[str, int], KafkaError] = {}
        impossible: KafkaError | None = None
        for topic_name, start_offsets in wanted:
            topic = self._topics.get(topic_name)
            for number, start_offset in start_offsets.items():
                if topic is not None and number < 0:
                    impossible = impossible or _impossible(group_id, topic.topic_id, number)
                elif topic is None or number >= topic.partition_count:
                    errors[topic_name, number] = UNKNOWN
                else:
                    names[topic.topic_id] = topic_name
                    offsets.setdefault(topic.topic_id, {})[number] = start_offset
        begun = {topic_id: TopicStates(names[topic_id], frozenset(starts)) for topic_id, starts in offsets.items()}

        def operation(life: GroupShardLife) -> WriteResult[tuple[GroupShardLife, int]]:
            group = self._writer.existing_or_new(life, group_id)
            _check_empty(group.members)
            if impossible is not None:
                raise impossible
            records = [_record(group_id, group.states.begun(begun))] if begun else []
            return WriteResult(records, (life, group.epoch))

        def refused(failures: Failures) -> AlterErrors:
            return {**errors, **{(names[topic_id], number): error for (topic_id, number), error in failures.items()}}

        def make(logged: tuple[GroupShardLife, int]) -> Completion[Failures]:
            life, epoch = logged
            if not offsets:
                return Completion.of({})
            return self._lifecycle.make(life, group_id, epoch, offsets, replaces=True)

        return self._runtime.write(group_id, operation).flat_map(make).map(refused)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, group_id: str, topic_names: Sequence[str]) -> Completion[DeleteErrors]:
        """DeleteShareGroupOffsets: forget what a group has read of topics. Fails with GROUP_ID_NOT_FOUND,
        NON_EMPTY_GROUP."""
        errors: dict[str, KafkaError | None] = {}
        names: dict[UUID, str] = {}

        def operation(life: GroupShardLife) -> WriteResult[KnownStates]:
            group = self._writer.existing(life, group_id)
            _check_empty(group.members)
            states = group.states
            for name in topic_names:
                topic = self._topics.get(name)
                if topic is None:
                    errors[name] = UNKNOWN
                elif topic.topic_id in states.initialized or topic.topic_id in states.deleting:
                    names[topic.topic_id] = name
                else:
                    errors[name] = NOTHING_TO_DELETE
            changed = states.deleting_topics(names)
            return WriteResult([_record(group_id, changed)] if changed != states else [], states)

        def deleted(failures: Failures) -> DeleteErrors:
            refused = {topic_id: error for (topic_id, _), error in reversed(list(failures.items()))}
            return {**{name: refused.get(topic_id) for topic_id, name in names.items()}, **errors}

        def delete(before: KnownStates) -> Completion[Failures]:
            partitions = self._lifecycle.to_delete(before.initialized, names)
            return self._lifecycle.delete(group_id, partitions, keeps_group=True)

        return self._runtime.write(group_id, operation).flat_map(delete).map(deleted)

    def prepare_deletion(self, group_id: str) -> Completion[None]:
        """Delete every state of a group that has no members, before the group itself is deleted. Fails with the error
        of the share coordinator: the group then stays."""

        def operation(life: GroupShardLife) -> WriteResult[KnownStates | None]:
            group = self._writer.find(life, group_id)
            if group is None or group.members or not group.states.topic_ids:
                return WriteResult((), None)
            return WriteResult([_record(group_id, group.states.deleting_all())], group.states)

        def delete(before: KnownStates | None) -> Completion[Failures]:
            if before is None:
                return Completion.of({})
            partitions = self._lifecycle.to_delete(before.made_or_begun, before.topic_ids)
            return self._lifecycle.delete(group_id, partitions, keeps_group=False)

        return self._runtime.write(group_id, operation).flat_map(delete).map(_raise_first)

    # --- describing ---------------------------------------------------------------------------------------------------

    def initialized(self, group_id: str) -> Completion[Mapping[UUID, TopicStates]]:
        """The partitions whose state is made; none for a group that is none."""

        def read(life: GroupShardLife) -> Mapping[UUID, TopicStates]:
            group = self._writer.find(life, group_id)
            return {} if group is None else group.states.initialized

        return self._runtime.read(group_id, read)

    def summary(self, group_id: str, topic_id: UUID, partition: int) -> Completion[ShareState]:
        """How far the group is in a partition."""
        key = SharePartitionKey(group_id, topic_id, partition)
        return self._lifecycle.states().summary(key, NO_LEADER_EPOCH)


def _check_empty(members: Iterable[object]) -> None:
    if members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP.text)


def _impossible(group_id: str, topic_id: UUID, number: int) -> KafkaError:
    message = "Initialize share group parameters has invalid partitionId"
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{message} - {group_id} {topic_id_text(topic_id)} {number}")


def _record(group_id: str, states: KnownStates) -> CoordinatorRecord:
    return SHARE_GROUPS.encode(group_id, StatesChanged(states))


def _raise_first(failures: Failures) -> None:
    for error in failures.values():
        raise error
