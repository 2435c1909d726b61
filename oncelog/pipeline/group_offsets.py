"""The offsets of a consumer group that say where a query is, for every tool that shows lag (SPARK-27549).

Owns: which offsets these are, and what must hold before they are committed. Does not own: committing them. The sink
does that in the transaction of the batch (`sink.publish`), or the source once the batch is done (`source.lookup`).
Spark's checkpoint stays the truth: nothing here ever reads offsets of a group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oncelog.client import Admin, AdminOptions, ConfigError, KafkaError, TopicDescription, TopicPartition
from oncelog.pipeline.source.offsets import StreamOffset
from oncelog.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The offsets that a group commits behind a batch."""

    group_id: str
    offsets: Mapping[TopicPartition, int]
    """The next offset of each partition."""
    topic_ids: Mapping[str, str]
    """The ids of the topics, as far as the source knows them."""

    def existing(self, topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
        """Return the offsets that are of these topics: not of one that is gone, or is of another cluster."""
        found = {topic.name: topic for topic in topics}
        return {
            place: offset
            for place, offset in self.offsets.items()
            if (topic := found.get(place.topic)) is not None
            and place.partition < topic.partition_count
            and self.topic_ids.get(place.topic) in (None, str(topic.topic_id))
        }

    def refusal(self, members: str) -> ConfigError:
        """Return the error for a group that has members."""
        return ConfigError(
            f"commitGroup={self.group_id!r}: the group has {members}",
            hint="name a group that no consumer joins: it would continue at the offsets of this query",
        )


def group_offsets(group_id: str, ends: Sequence[StreamOffset]) -> GroupOffsets:
    """Return the offsets behind these ends, one of each source. Of a partition that several sources read it is the
    least one."""
    offsets: dict[TopicPartition, int] = {}
    for end in ends:
        for name, topic in end.items():
            for partition, offset in topic.next.items():
                place = TopicPartition(name, partition)
                offsets[place] = min(offset, offsets.get(place, offset))
    topic_ids = {name: topic.topic_id for end in ends for name, topic in end.items() if topic.topic_id}
    return GroupOffsets(group_id, offsets, topic_ids)


async def checked(bootstrap_servers: str, reach: AdminOptions, wanted: GroupOffsets) -> dict[TopicPartition, int]:
    """Return the offsets that are of topics of this cluster.

    Raises KafkaError, and ConfigError if there are none, or if the group has members: these would continue at the
    query's offsets after their next rebalance, and a broker refuses no transaction for that.
    """
    async with Admin(bootstrap_servers, **reach) as admin:
        present = await admin.list_topics(include_internal=True)
        names = {place.topic for place in wanted.offsets}.intersection(present)
        offsets = wanted.existing(await admin.describe_topics(*sorted(names)) if names else ())
        if wanted.offsets and not offsets:
            raise ConfigError(
                f"commitGroup={wanted.group_id!r}: none of the topics that the query reads is on this cluster",
                hint="where the sink writes to another cluster than the source reads, give commitGroup to the source",
            )
        if count := await _member_count(admin, wanted.group_id):
            raise wanted.refusal("a member" if count == 1 else f"{count} members")
    return offsets


async def _member_count(admin: Admin, group_id: str) -> int:
    try:
        (group,) = await admin.describe_groups(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return 0
    return len(group.members)
