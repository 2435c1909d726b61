"""Requests of streams groups (KIP-1071) as members send them, and what counts of each answer: errors, epochs, status,
tasks, topics by name; no ids that a broker makes."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.asking import same
from tests.clients.share_requests import ERROR, ShareTalk

Tasks = Mapping[str, Sequence[int]]
TASKS = "active_tasks{0} standby_tasks{0} warmup_tasks{0}".replace("{0}", "{subtopology_id partitions{}}")
_TOPICS = "(name partitions replication_factor topic_configs(key value))"


def topic_info(name: str, partitions: int = 0, replication_factor: int = 0, **configs: str) -> Any:
    settings = [(key.replace("_", "."), value) for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": replication_factor, "topic_configs": settings}


def subtopology(
    subtopology_id: str,
    *source_topics: str,
    regex: Sequence[str] = (),
    changelogs: Sequence[Any] = (),
    sinks: Sequence[str] = (),
    repartitioned: Sequence[Any] = (),
    copartitioned: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Any:
    """Groups of co-partitioned topics are numbers of source topics and of repartition topics."""
    return {
        "subtopology_id": subtopology_id,
        "source_topics": source_topics,
        "source_topic_regex": regex,
        "state_changelog_topics": changelogs,
        "repartition_sink_topics": sinks,
        "repartition_source_topics": repartitioned,
        "copartition_groups": [
            {"source_topics": sources, "repartition_source_topics": of} for sources, of in copartitioned
        ],
    }


def topology(*subtopologies: Any, epoch: int = 0) -> Any:
    return {"epoch": epoch, "subtopologies": subtopologies}


COUNTS = topology(subtopology("0", "log"))
"""One subtopology that reads one topic and keeps nothing."""


class StreamsTalk(ShareTalk):
    def streams_beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> tuple[Any, ...]:
        """Error, whether the member's id is echoed, its epoch, the intervals, the status, active and standby tasks."""
        for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
            if isinstance(fields.get(kind), dict):
                fields[kind] = list(fields[kind].items())
        who = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
        answer = self.ask("StreamsGroupHeartbeat", 0, **who, **fields)
        partitions = "{topic partitions{}}"
        endpoints = (
            f"user_endpoint.host user_endpoint.port active_partitions{partitions} standby_partitions{partitions}"
        )
        shape = (
            f"{ERROR} member_id:echoed member_epoch "
            "(heartbeat_interval_ms acceptable_recovery_lag task_offset_interval_ms) "
            f"status(status_code status_detail) {TASKS} "
            f"(endpoint_information_epoch partitions_by_user_endpoint{{{endpoints}}})"
        )
        told: tuple[Any, ...] = self.counts(answer, shape, echoed=same(member_id))
        return told

    def streams_join(self, group_id: str, member_id: str, **fields: Any) -> tuple[Any, ...]:
        said = {
            "rebalance_timeout_ms": 60_000,
            "topology": COUNTS,
            "active_tasks": {},
            "standby_tasks": {},
            "warmup_tasks": {},
            "process_id": member_id,
        }
        return self.streams_beat(group_id, member_id, 0, **{**said, **fields})

    def owning(self, group_id: str, member_id: str, epoch: int, active: Tasks, **fields: Any) -> tuple[Any, ...]:
        """A heartbeat of a member that says which active tasks it has."""
        said = {"active_tasks": dict(active), "standby_tasks": {}, "warmup_tasks": {}}
        return self.streams_beat(group_id, member_id, epoch, **{**said, **fields})

    def streams_group(self, group_id: str, **fields: Any) -> tuple[Any, ...]:
        """Error, state and epochs, the topology, the members."""
        topics = f"state_changelog_topics{_TOPICS} repartition_source_topics{_TOPICS}"
        shape = (
            f"groups.0({ERROR} group_state group_epoch assignment_epoch "
            f"topology(epoch subtopologies(subtopology_id source_topics:list repartition_sink_topics:list {topics})) "
            "members{member_id member_epoch (instance_id rack_id client_id process_id topology_epoch) "
            f"user_endpoint(host port) client_tags{{key value}} assignment({TASKS}) target_assignment({TASKS}) "
            "(task_offsets:len task_end_offsets:len is_classic)} authorized_operations)"
        )
        described: tuple[Any, ...] = self.ask("StreamsGroupDescribe", 0, shape, group_ids=[group_id], **fields)
        return described
