"""Faults to plant in streams groups: each breaks one promise, and the simulation must notice.

Owns: the list. Each is a small change to one function of the broker, as a mistake in it would be.
"""

from dataclasses import replace
from typing import Any

import pytest

from oncelog.broker.coordinator.group import offsets
from oncelog.broker.coordinator.group.administration import GroupAdministration
from oncelog.broker.coordinator.group.engine import commits
from oncelog.broker.coordinator.group.engine.sessions import Sessions, Wait
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.writer import GroupWriter
from oncelog.broker.coordinator.group.streams import internal_topics, reconciliation
from oncelog.broker.coordinator.group.streams.assignor import _Assignment
from oncelog.broker.coordinator.group.streams.coordinator import StreamsGroupCoordinator
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.tasks import OwnedTasks
from oncelog.broker.coordinator.group.streams.update import StreamsSteps
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.handlers import streams_group_heartbeat
from oncelog.broker.turns.completion import Completion
from tests.simulation.log_faults import Plant


def give_tasks_that_others_still_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroup, "has_active", lambda *_: False)


def wait_for_no_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_still_has", lambda *_: False)


def forget_what_is_being_revoked(patch: pytest.MonkeyPatch) -> None:
    put = StreamsGroup._put

    def without(self: StreamsGroup, member: Any) -> None:
        current = member.current
        put(self, replace(member, current=replace(current, pending_revocation=OwnedTasks())))

    patch.setattr(StreamsGroup, "_put", without)


def answer_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    write = GroupWriter.write

    def at_once(self: GroupWriter[Any], group_id: str, decide: Any) -> Completion[Any]:
        made: list[Any] = []

        def noted(life: GroupShardLife) -> Any:
            made.append(decide(life))
            return made[-1]

        written = write(self, group_id, noted)
        return written if written.done or not made else Completion.of(made[-1].response)

    patch.setattr(GroupWriter, "write", at_once)


def keep_the_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroupCoordinator, "on_expired", lambda *_: None)


def let_epochs_stay_when_a_member_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsSteps, "remove", lambda self, member_id: self.update.remove(member_id))


def take_commits_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "_check_epoch", lambda *_: {})


def take_transactional_commits_from_anybody(patch: pytest.MonkeyPatch) -> None:
    rules = offsets._rules

    def lax(group: Any) -> Any:
        found = rules(group)
        return replace(found, check_transactional=lambda *_: {})

    patch.setattr(offsets, "_rules", lax)


def take_commits_from_those_who_left(patch: pytest.MonkeyPatch) -> None:
    rules = offsets._rules

    def lax(group: Any) -> Any:
        found = rules(group)

        def check(group: Any, committer: Any, committed: Any) -> Any:
            return found.check_commit(group, committer, committed) if committer.member_id in group.members else {}

        return replace(found, check_commit=check)

    patch.setattr(offsets, "_rules", lax)


def keep_offsets_of_groups_that_are_deleted(patch: pytest.MonkeyPatch) -> None:
    tombstones = GroupAdministration._tombstones

    def without(self: GroupAdministration, shard: Any, group_id: str) -> list[CoordinatorRecord]:
        offset_count = len({*shard.offsets(group_id), *shard.pending_partitions(group_id)})
        return tombstones(self, shard, group_id)[offset_count:]

    patch.setattr(GroupAdministration, "_tombstones", without)


def make_every_topic_with_one_partition(patch: pytest.MonkeyPatch) -> None:
    create = streams_group_heartbeat._create_one
    patch.setattr(
        streams_group_heartbeat,
        "_create_one",
        lambda context, topic, mutations: create(context, replace(topic, partition_count=1), mutations),
    )


def read_copartitioned_topics_as_they_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(internal_topics, "_copartition", lambda *_: None)


def make_no_topic_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupShardLife, "on_topic_changed", lambda *_: None)


def keep_no_standby_in_reserve(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Assignment, "assign_standby", lambda *_: None)


def put_standby_tasks_where_the_task_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroup, "is_in_process", lambda *_: False)
    patch.setattr(_Assignment, "_has_room", lambda *_: True)


def forget_members_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroupCoordinator, "on_active", lambda _, __, group: group.members.clear())


def let_sessions_end_early(patch: pytest.MonkeyPatch) -> None:
    expect = Sessions.expect

    def shorter(self: Sessions, group_id: str, member_id: str, wait: Wait, timeout_ms: int) -> None:
        expect(self, group_id, member_id, wait, timeout_ms // 3)

    patch.setattr(Sessions, "expect", shorter)


PLANTS: tuple[Plant, ...] = (
    give_tasks_that_others_still_have,
    wait_for_no_revocation,
    forget_what_is_being_revoked,
    keep_the_lost,
    answer_before_it_is_durable,
    let_epochs_stay_when_a_member_goes,
    take_commits_of_any_epoch,
    take_transactional_commits_from_anybody,
    take_commits_from_those_who_left,
    keep_offsets_of_groups_that_are_deleted,
    make_every_topic_with_one_partition,
    read_copartitioned_topics_as_they_come,
    make_no_topic_again,
    keep_no_standby_in_reserve,
    put_standby_tasks_where_the_task_is,
    forget_members_at_a_start,
    let_sessions_end_early,
)
