"""Makes and deletes the states of share-partitions in the share coordinator, and logs how far that is.

Owns: the order "log what is begun, ask the share coordinator, log what is done", and when a step is repeated. Does not
own: the states (`broker.coordinator.share`), what is known of them (`states`).
Invariants
- The share coordinator is asked only once the record that says so is durable: a crash in between is seen in the record.
- A state that is made is not begun again by a heartbeat: that would forget what members have read. Nor is one deleted
  that a member needs by now.
- Nothing is assigned before its state is made, and durable.

Source: Kafka's GroupCoordinatorService.persisterInitialize and deleteState. Kafka counts all partitions of a request as
not made if one is refused; here each counts by itself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from oncelog.broker.config.group_settings import GroupSettings, ShareGroupConfig
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.engine.writer import GroupWriter
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.kind import SHARE_GROUPS
from oncelog.broker.coordinator.group.share.ports import ShareStates
from oncelog.broker.coordinator.group.share.records import StatesChanged
from oncelog.broker.coordinator.group.share.states import KnownStates, TopicStates
from oncelog.broker.coordinator.group.share.update import ShareSteps
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.coordinator.share.values import UNINITIALIZED_START_OFFSET, SharePartitionKey
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import ErrorCode, KafkaError

StartOffsets = Mapping[UUID, Mapping[int, int]]
"""Start offsets by topic and partition."""
Failures = Mapping[tuple[UUID, int], KafkaError]
"""Why the share coordinator refused, by topic and partition."""

_STATE_ELEMENTS = 8
"""The elements of making or deleting a state: to log and to replay a record or two."""


class StateLifecycle:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        writer: GroupWriter[ShareGroup],
        clock: Clock,
        topics: TopicCatalog,
        settings: GroupSettings[ShareGroupConfig],
        states: Callable[[], ShareStates],
        slices: Slices,
    ) -> None:
        self._runtime = runtime
        self._writer = writer
        self._clock = clock
        self._topics = topics
        self._settings = settings
        self._slices = slices
        self.states = states

    # --- making -------------------------------------------------------------------------------------------------------

    def prepare(self, life: GroupShardLife, steps: ShareSteps) -> Callable[[], None] | None:
        """Note in a heartbeat's decision which states must be made; returns what to call once it is logged."""
        group_id = steps.update.group.group_id
        missing = steps.begin_states(self._waiting(life, group_id))
        if not missing:
            return None
        epoch = steps.update.group.epoch
        return lambda: self._start(life, group_id, epoch, missing)

    def _waiting(self, life: GroupShardLife, group_id: str) -> Collection[UUID]:
        """Return the topics whose states are being made, and for which it is not time to ask again."""
        since_ms = self._clock.monotonic_ms() - self._settings.of(group_id).initialize_retry_interval_ms
        begun = life.initializing.get(group_id, {})
        return [topic_id for topic_id, begun_ms in begun.items() if begun_ms > since_ms]

    def _start(
        self, life: GroupShardLife, group_id: str, state_epoch: int, missing: Mapping[UUID, TopicStates]
    ) -> None:
        offsets = {
            topic_id: dict.fromkeys(sorted(each.partitions), UNINITIALIZED_START_OFFSET)
            for topic_id, each in missing.items()
        }
        self.make(life, group_id, state_epoch, offsets, replaces=False)

    def make(
        self,
        life: GroupShardLife,
        group_id: str,
        state_epoch: int,
        offsets: StartOffsets,
        *,
        replaces: bool,
    ) -> Completion[Failures]:
        """Make states that are logged as being made, also if another request has made them since and this one
        `replaces` them. Completes once what was made is logged as such and durable; fails with KafkaError if that
        cannot be logged."""
        begun = life.initializing.setdefault(group_id, {})
        begun.update(dict.fromkeys(offsets, self._clock.monotonic_ms()))
        made = self._slices.run_own(self._making(group_id, state_epoch, offsets, replaces))
        made.then(lambda _: _end(life, group_id, offsets))
        return made

    def _making(self, group_id: str, state_epoch: int, offsets: StartOffsets, replaces: bool) -> Sliced[Failures]:
        yield from self._logged(group_id)
        asked: dict[tuple[UUID, int], Completion[None]] = {}
        for topic_id, starts in offsets.items():
            for number, start_offset in starts.items():
                if self._may_make(group_id, topic_id, number, replaces):
                    key = SharePartitionKey(group_id, topic_id, number)
                    asked[topic_id, number] = self.states().initialize(key, state_epoch, start_offset)
                yield _STATE_ELEMENTS
        failures = yield from _failures(asked)
        if replaces:
            failures |= {
                (topic_id, number): KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "It was deleted meanwhile.")
                for topic_id, starts in offsets.items()
                for number in starts
                if (topic_id, number) not in asked
            }
        made = _by_topic(partition for partition in asked if partition not in failures)
        refused = _by_topic(failures)
        yield from self._log(group_id, lambda states: states.made(made).given_up(refused))
        return failures

    def _may_make(self, group_id: str, topic_id: UUID, number: int, replaces: bool) -> bool:
        """Whether the state is still to be made: another request may have made or deleted it since. Raises KafkaError
        if the shard is gone."""
        group = self._writer.find(self._runtime.shard(group_id), group_id)
        if group is None:
            return False
        states = group.states
        wanted = (states.initializing, states.initialized) if replaces else (states.initializing,)
        return any(topic_id in each and number in each[topic_id].partitions for each in wanted)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def to_delete(self, known: Mapping[UUID, TopicStates], topic_ids: Iterable[UUID]) -> Mapping[UUID, Collection[int]]:
        """Return the partitions of these topics whose states may exist. Of a topic that is not among the `known` ones,
        as its deletion has not ended, it may be each; of one that is gone the share coordinator deletes them by
        itself."""
        found: dict[UUID, Collection[int]] = {}
        for topic_id in topic_ids:
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                each = known.get(topic_id)
                found[topic_id] = range(topic.partition_count) if each is None else sorted(each.partitions)
        return found

    def delete(
        self, group_id: str, partitions: Mapping[UUID, Collection[int]], *, keeps_group: bool
    ) -> Completion[Failures]:
        """Delete states that are logged as being deleted; if the group stays, log each topic whose states are all
        gone. Fails with KafkaError if that cannot be logged."""
        return self._slices.run_own(self._deleting(group_id, partitions, keeps_group))

    def _deleting(
        self, group_id: str, partitions: Mapping[UUID, Collection[int]], keeps_group: bool
    ) -> Sliced[Failures]:
        yield from self._logged(group_id)
        asked: dict[tuple[UUID, int], Completion[None]] = {}
        for topic_id, numbers in partitions.items():
            for number in numbers:
                if self._is_being_deleted(group_id, topic_id):
                    asked[topic_id, number] = self.states().delete(SharePartitionKey(group_id, topic_id, number))
                yield _STATE_ELEMENTS
        failures = yield from _failures(asked)
        gone = partitions.keys() - {topic_id for topic_id, _ in failures}
        if keeps_group and gone:
            yield from self._log(group_id, lambda states: states.deleted(gone))
        return failures

    def _is_being_deleted(self, group_id: str, topic_id: UUID) -> bool:
        """Whether that is still so: a member may have joined since, which needs the state. Raises KafkaError if the
        shard is gone."""
        group = self._writer.find(self._runtime.shard(group_id), group_id)
        return group is not None and topic_id in group.states.deleting

    # --- logging ------------------------------------------------------------------------------------------------------

    def _logged(self, group_id: str) -> Sliced[None]:
        """Wait until what was decided is durable. Raises KafkaError."""
        durable = self._runtime.read(group_id, lambda _: None)
        yield durable
        durable.result()

    def _log(self, group_id: str, change: Callable[[KnownStates], KnownStates]) -> Sliced[None]:
        """Raises KafkaError."""

        def operation(life: GroupShardLife) -> WriteResult[None]:
            group = self._writer.find(life, group_id)
            changed = None if group is None else change(group.states)
            if group is None or changed is None or changed == group.states:
                return WriteResult((), None)
            return WriteResult((SHARE_GROUPS.encode(group_id, StatesChanged(changed)),), None)

        written = self._runtime.write(group_id, operation)
        yield written
        written.result()


def _failures(asked: Mapping[tuple[UUID, int], Completion[None]]) -> Sliced[dict[tuple[UUID, int], KafkaError]]:
    """Wait for all, and return the refusals. Raises any other error."""
    failures: dict[tuple[UUID, int], KafkaError] = {}
    for partition, done in asked.items():
        if not done.done:
            yield done
        if isinstance(done.error, KafkaError):
            failures[partition] = done.error
        else:
            done.result()
        yield 1
    return failures


def _by_topic(partitions: Iterable[tuple[UUID, int]]) -> Mapping[UUID, Collection[int]]:
    found: dict[UUID, set[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, set()).add(number)
    return found


def _end(life: GroupShardLife, group_id: str, topic_ids: Iterable[UUID]) -> None:
    begun = life.initializing.get(group_id, {})
    for topic_id in topic_ids:
        begun.pop(topic_id, None)
    if not begun:
        life.initializing.pop(group_id, None)
