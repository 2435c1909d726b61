"""Requests of streams groups (KIP-1071) as members send them, and what counts of each answer: errors, epochs, status,
tasks, topics by name; no ids that a broker makes."""

from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.protocol.generated import streams_group_heartbeat_request as beating
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from tests.clients.share_requests import ShareTalk

Tasks = Mapping[str, Sequence[int]]


def topic_info(name: str, partitions: int = 0, replication_factor: int = 0, **configs: str) -> Any:
    settings = [beating.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return beating.TopicInfo(
        name=name, partitions=partitions, replication_factor=replication_factor, topic_configs=settings
    )


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
    return beating.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(source_topics),
        source_topic_regex=list(regex),
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartitioned),
        copartition_groups=[
            beating.CopartitionGroup(source_topics=list(sources), repartition_source_topics=list(of))
            for sources, of in copartitioned
        ],
    )


def topology(*subtopologies: Any, epoch: int = 0) -> Any:
    return beating.Topology(epoch=epoch, subtopologies=list(subtopologies))


COUNTS = topology(subtopology("0", "log"))
"""One subtopology that reads one topic and keeps nothing."""


def tasks(of: Tasks) -> list[Any]:
    return [beating.TaskIds(subtopology_id=name, partitions=list(numbers)) for name, numbers in of.items()]


def _shown(of: Sequence[Any] | None) -> Any:
    if of is None:
        return None
    return sorted((entry.subtopology_id, sorted(entry.partitions)) for entry in of)


class StreamsTalk(ShareTalk):
    def streams_beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> tuple[Any, ...]:
        """Error, whether the member's id is echoed, its epoch, the intervals, the status, active and standby tasks."""
        for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
            if isinstance(fields.get(kind), dict):
                fields[kind] = tasks(fields[kind])
        request = beating.StreamsGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        answer = self.ask(request, 0)
        status = (
            None if answer.status is None else [(entry.status_code, entry.status_detail) for entry in answer.status]
        )
        endpoints = answer.partitions_by_user_endpoint
        return (
            *self.error(answer),
            answer.member_id == member_id,
            answer.member_epoch,
            (answer.heartbeat_interval_ms, answer.acceptable_recovery_lag, answer.task_offset_interval_ms),
            status,
            _shown(answer.active_tasks),
            _shown(answer.standby_tasks),
            _shown(answer.warmup_tasks),
            (answer.endpoint_information_epoch, None if endpoints is None else self._endpoints(endpoints)),
        )

    def _endpoints(self, entries: Sequence[Any]) -> Any:
        return sorted(
            (
                entry.user_endpoint.host,
                entry.user_endpoint.port,
                *(
                    sorted((of.topic, sorted(of.partitions)) for of in partitions)
                    for partitions in (entry.active_partitions, entry.standby_partitions)
                ),
            )
            for entry in entries
        )

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
        (group,) = self.ask(StreamsGroupDescribeRequest(group_ids=[group_id], **fields), 0).groups
        members = sorted(
            (
                member.member_id,
                member.member_epoch,
                (member.instance_id, member.rack_id, member.client_id, member.process_id, member.topology_epoch),
                None if member.user_endpoint is None else (member.user_endpoint.host, member.user_endpoint.port),
                sorted((tag.key, tag.value) for tag in member.client_tags),
                self._assigned_tasks(member.assignment),
                self._assigned_tasks(member.target_assignment),
                (len(member.task_offsets), len(member.task_end_offsets), member.is_classic),
            )
            for member in group.members
        )
        epochs = (group.group_state, group.group_epoch, group.assignment_epoch)
        shown = None if group.topology is None else (group.topology.epoch, self._subtopologies(group.topology))
        return *self.error(group), *epochs, shown, members, group.authorized_operations

    def _assigned_tasks(self, of: Any) -> Any:
        return _shown(of.active_tasks), _shown(of.standby_tasks), _shown(of.warmup_tasks)

    def _subtopologies(self, of: Any) -> Any:
        if of.subtopologies is None:
            return None
        return [
            (
                entry.subtopology_id,
                list(entry.source_topics),
                list(entry.repartition_sink_topics),
                *(
                    [
                        (
                            topic.name,
                            topic.partitions,
                            topic.replication_factor,
                            [(config.key, config.value) for config in topic.topic_configs],
                        )
                        for topic in topics
                    ]
                    for topics in (entry.state_changelog_topics, entry.repartition_source_topics)
                ),
            )
            for entry in of.subtopologies
        ]
