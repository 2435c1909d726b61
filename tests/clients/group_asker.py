"""Questions about groups of any kind, as tools ask them: lists, offsets, deletions, topics that change."""

from collections.abc import Sequence
from typing import Any

from tests.clients.asking import Asker, one_partition, since


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
