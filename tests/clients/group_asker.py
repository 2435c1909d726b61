"""Questions about groups of any kind, as tools ask them: lists, offsets, deletions, topics that change."""

from collections.abc import Sequence
from typing import Any

from tests.clients.asking import NO_ID, Asker, one_partition, since


class GroupAsker(Asker):
    def listed(self, version: int = 5, **filters: Any) -> tuple[str, list[tuple[Any, ...]]]:
        """ListGroups: its error, and the groups: id, kind of protocol, state, type."""
        shape = "error_code groups{group_id protocol_type group_state group_type:since_5}"
        answer = self.ask("ListGroups", version, **filters)
        found: tuple[str, list[tuple[Any, ...]]] = self.counts(answer, shape, since_5=since(5, version))
        return found

    def delete_groups(self, *group_ids: str) -> list[str]:
        errors: list[str] = self.ask("DeleteGroups", 2, "results.error_code", groups_names=group_ids)
        return errors

    def delete_offset(self, group_id: str, topic: str, partition: int = 0) -> tuple[str, list[str]]:
        """OffsetDelete: its error, and the partition's."""
        shape = "error_code topics/partitions.error_code"
        errors: tuple[str, list[str]] = self.ask(
            "OffsetDelete", 0, shape, group_id=group_id, topics=one_partition(topic, partition)
        )
        return errors

    def all_offsets(self, group_id: str) -> tuple[str, list[tuple[str, int, int]]]:
        shape = "groups.0(error_code topics/partitions{name partition_index committed_offset})"
        found: tuple[str, list[tuple[str, int, int]]] = self.ask(
            "OffsetFetch", 8, shape, groups=[{"group_id": group_id, "topics": None}]
        )
        return found

    def commit(
        self, group_id: str, member_id: str, epoch: int, topic: str, partition: int = 0, version: int = 9
    ) -> str:
        """OffsetCommit of one partition."""
        who = {"group_id": group_id, "member_id": member_id, "generation_id_or_member_epoch": epoch}
        (of,) = one_partition(topic, partition, committed_offset=1, committed_metadata="")
        topics = [{**of, "topic_id": self.ids[topic]}]
        error: str = self.ask("OffsetCommit", version, "topics.0.partitions.0.error_code", **who, topics=topics)
        return error

    def fetched(
        self, group_id: str, member_id: str | None, epoch: int, topic: str | None, version: int = 9
    ) -> tuple[str, list[int]]:
        """OffsetFetch of partition 0, or of everything: the error and the offsets."""
        named = {"name": topic, "topic_id": self.ids.get(topic or "", NO_ID), "partition_indexes": [0]}
        group = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
        found: tuple[str, list[int]] = self.ask(
            "OffsetFetch",
            version,
            "groups.0(error_code topics/partitions.committed_offset)",
            groups=[{**group, "topics": None if topic is None else [named]}],
        )
        return found

    def leave(self, group_id: str, *members: tuple[str, str | None], version: int = 4) -> tuple[str, list[str]]:
        """LeaveGroup: its error, and that of each member, who is known by its id and its instance's."""
        shape = "error_code members.error_code"
        errors: tuple[str, list[str]] = self.ask("LeaveGroup", version, shape, group_id=group_id, members=members)
        return errors

    def delete_topic(self, topic: str) -> str:
        shape = "responses.0.error_code"
        error: str = self.ask("DeleteTopics", 5, shape, topic_names=[topic], timeout_ms=10_000)
        return error

    def grow(self, topic: str, count: int, assignments: Sequence[Any] | None = None) -> None:
        self.ask("CreatePartitions", 3, topics=[(topic, count, assignments)], timeout_ms=10_000)
