"""Both clusters compared: what is to be copied, where each topic stands, and what is in the way.

Owns: which topics are chosen, their settings on the target, every reason to refuse. Does not own: doing it (`copying`).
It writes nothing. A reason is a sentence that says what to do; with one reason nothing at all is copied.
"""

import re
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field, replace

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import TopicDescription
from oncelog.client.consuming.consumer import Consumer
from oncelog.client.consuming.following import BatchFollower
from oncelog.client.options.option_types import SecurityOptions
from oncelog.client.values.records import TopicPartition
from oncelog.tools.copy.state import TOPIC_PREFIX, CopyState, PartitionCopy, TopicIds, replay, topic_of

_LEFT_OUT = frozenset(
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.type",
        "min.insync.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    )
)
"""The settings of a topic that belong to its cluster, as MirrorMaker leaves them out, and those of tiered storage. With
message.timestamp.type the target would replace the records' times (`copying.finish` sets it)."""
_TIMESTAMP_TYPE = "message.timestamp.type"
_MAX_BYTES = 32 << 20
_PATIENCE_MS = 500
_MANY = 10_000


class CopyError(Exception):
    """Raised if the copy cannot begin, or continue; the message says what was lost or is in the way, and what to do."""


@dataclass(frozen=True, slots=True)
class Side:
    """How to reach one of the clusters: bootstrap servers, and the options of TLS and SASL."""

    bootstrap: str
    security: SecurityOptions = field(default_factory=SecurityOptions, repr=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """The topics to copy: those whose whole name one of `topics` matches and none of `excluded`, regular expressions.
    Without `topics` all but those with names that begin with two underscores."""

    topics: tuple[re.Pattern[str], ...] = ()
    excluded: tuple[re.Pattern[str], ...] = ()

    def takes(self, name: str) -> bool:
        if any(each.fullmatch(name) for each in self.excluded):
            return False
        return any(each.fullmatch(name) for each in self.topics) if self.topics else not name.startswith("__")


@dataclass(frozen=True, slots=True)
class Extent:
    """The readable offsets of a partition: from `start` up to `end`, the high watermark."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic. `target` is None if it is to be created there; `ids` None if it was never copied."""

    source: TopicDescription
    target: TopicDescription | None
    ids: TopicIds | None
    configs: Mapping[str, str]
    """The settings that the target is created with."""
    stamps_on_append: bool
    """True if the broker sets the times of records on the source."""
    extents: Mapping[int, Extent]
    """The extents of the source's partitions."""
    copied: Mapping[int, PartitionCopy]
    refusal: str = ""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def offset_count(self) -> int:
        """The number of offsets that are still to be read: an upper bound of the records."""
        return sum(extent.end - self.position(partition) for partition, extent in self.extents.items())

    def position(self, partition: int) -> int:
        """Return the source offset to continue at: the log's start for a partition that was never copied."""
        copied = self.copied.get(partition)
        return self.extents[partition].start if copied is None else copied.next_offset

    @property
    def action(self) -> str:
        if self.refusal:
            return self.refusal
        if self.target is None:
            return "is created and copied"
        if self.ids is None:
            return "is copied into the empty topic"
        added = self.source.partition_count - self.target.partition_count
        return f"continues, with {added} more partitions" if added else "continues"


@dataclass(frozen=True, slots=True)
class Survey:
    """Both clusters, as they were a moment ago."""

    source_cluster_id: str
    target_cluster_id: str
    state: CopyState
    has_state_topic: bool
    open_offset: int | None
    """The offset of an open transaction in that topic, if there is one: its records may be on the target before the
    state has them."""
    topics: tuple[TopicPlan, ...]
    target_ends: Mapping[TopicPartition, int]
    """The ends of the target's partitions for readers of committed records."""

    def require_topics(self, wish: Wish) -> None:
        """Raises CopyError for a pattern that no topic matches: one that ends will not see it created."""
        for pattern in wish.topics:
            if not any(pattern.fullmatch(each.name) for each in self.topics):
                raise CopyError(
                    f"--topics: {pattern.pattern!r} matches no topic's name as a whole; `oncelog topic list` shows the "
                    "names"
                )

    def require_possible(self) -> None:
        """Raises CopyError with every reason against it."""
        reasons = [each.refusal for each in self.topics if each.refusal]
        if self.state.switched_at_ms is not None:
            topic = topic_of(self.source_cluster_id)
            reasons.append(
                f"a switch-over has ended this copy: clients write to the target now. To copy once more, to empty "
                f"topics, delete {topic!r} there"
            )
        if reasons:
            raise CopyError("; ".join(reasons))


async def cluster_ids(source: Admin, target: Admin) -> tuple[str, str]:
    """Raises CopyError unless they are two clusters."""
    ids = [(await each.describe_cluster()).cluster_id or "" for each in (source, target)]
    if not all(ids):
        raise CopyError(f"the {'target' if ids[0] else 'source'} has no cluster id, by which a copy is known")
    if ids[0] == ids[1]:
        raise CopyError(f"source and target are the same cluster, {ids[0]}")
    return ids[0], ids[1]


async def survey(source: Admin, target: Admin, target_side: Side, wish: Wish) -> Survey:
    """Compare the clusters. Raises CopyError for the same cluster twice, and KafkaError."""
    source_id, target_id = await cluster_ids(source, target)
    there = {each.name: each for each in await target.describe_topics()}
    topics = sorted(await source.describe_topics(), key=lambda topic: topic.name)
    chosen = [each for each in topics if is_copied(each, wish)]
    places = [place for topic in chosen if topic.name in there for place in places_of(there[topic.name])]
    # Before the state: another copy may be running, whose records count as its own once the state has them.
    ends_before = await _ends(target, places)
    state_topic = topic_of(source_id)
    state, open_offset = CopyState(), None
    if state_topic in there:
        state, open_offset = await _read_state(target_side, TopicPartition(state_topic, 0), target)
    extents = await extents_of(source, [place for topic in chosen for place in places_of(topic)])
    plans = [await _plan(source, topic, there.get(topic.name), state, extents) for topic in chosen]
    copied = {plan.name: plan.copied for plan in plans}
    begin = {
        place: copied[place.topic][place.partition].runs.target_end if place.partition in copied[place.topic] else 0
        for place in places
    }
    reasons = await _lost_there(target, begin)
    if open_offset is None:
        reasons |= await _written_by_others(target, target_side, begin, ends_before)
    judged = tuple(replace(each, refusal=_refusal(each, reasons.get(each.name, ""))) for each in plans)
    ends = await _ends(target, places)
    return Survey(source_id, target_id, state, state_topic in there, open_offset, judged, ends)


async def _ends(admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return where readers of committed records end."""
    found = await admin.list_offsets(places, isolation_level="read_committed") if places else {}
    return {place: each.offset for place, each in found.items()}


def is_copied(topic: TopicDescription, wish: Wish) -> bool:
    """Whether the topic is copied: Kafka's own topics never are, nor those of copies."""
    return not topic.is_internal and not topic.name.startswith(TOPIC_PREFIX) and wish.takes(topic.name)


def places_of(topic: TopicDescription) -> list[TopicPartition]:
    """Return the partitions of a topic."""
    return [TopicPartition(topic.name, each.partition) for each in topic.partitions]


async def extents_of(admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, Extent]:
    """Return the first offset and the high watermark of each partition."""
    starts, ends = await admin.list_offsets(places, "earliest"), await admin.list_offsets(places)
    return {place: Extent(starts[place].offset, ends[place].offset) for place in places}


async def _plan(
    source: Admin,
    topic: TopicDescription,
    target: TopicDescription | None,
    state: CopyState,
    extents: Mapping[TopicPartition, Extent],
) -> TopicPlan:
    entries = await source.describe_config_entries(topic=topic.name)
    values = {each.name: each.value for each in entries if each.value is not None}
    configs = {
        each.name: each.value
        for each in entries
        if each.value is not None and not each.is_default and not each.is_read_only and each.name not in _LEFT_OUT
    }
    ids = None if target is None else state.of_target(topic.name, target.topic_id)
    copied = {} if ids is None else state.partitions[ids]
    own = {place.partition: extents[place] for place in places_of(topic)}
    return TopicPlan(topic, target, ids, configs, values.get(_TIMESTAMP_TYPE) == "LogAppendTime", own, copied)


# --- reasons to refuse ------------------------------------------------------------------------------------------------


def _refusal(plan: TopicPlan, foreign: str) -> str:
    name, target = plan.name, plan.target
    if target is None:
        return ""
    count, there = plan.source.partition_count, target.partition_count
    if plan.ids is None and count != there:
        return f"{name} has {count} partitions, on the target {there}: delete it there, or --exclude it"
    if plan.ids is not None and count < there:
        return f"{name} has {count} partitions, on the target {there}: some were added there; --exclude it"
    if foreign:
        return foreign
    if plan.ids is not None and plan.ids.source != plan.source.topic_id:
        return made_again(name)
    lost = (
        lost_records(TopicPartition(name, partition), copied.next_offset, plan.extents[partition])
        for partition, copied in sorted(plan.copied.items())
        if partition in plan.extents
    )
    return next((each for each in lost if each), "")


def made_again(name: str) -> str:
    return (
        f"{name} was deleted and created again on the source: what the old one had at the end may be missing on the "
        f"target. To copy the new one, delete {name} on the target; or --exclude it"
    )


def lost_records(place: TopicPartition, next_offset: int, extent: Extent) -> str:
    """Return why a partition cannot be copied from there; an empty text if it can. Gaps between offsets are no reason:
    markers, aborted transactions and compaction leave them. That the log begins behind the position, or ends before it,
    is."""
    where = f"{place.topic}-{place.partition}"
    step = f"To copy what there is, delete {place.topic} on the target; or --exclude it"
    if next_offset < extent.start:
        return (
            f"{where}: offsets {next_offset} to {extent.start - 1} were deleted on the source, by retention or "
            f"DeleteRecords, before they were copied. {step}"
        )
    if next_offset > extent.end:
        return (
            f"{where}: the source ends at offset {extent.end}, and was copied up to {next_offset}: it has lost records "
            f"that are on the target, and may give their offsets to others. {step}"
        )
    return ""


async def _lost_there(target: Admin, begin: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Return what the target has lost, by topic."""
    ends = await target.list_offsets(begin) if begin else {}
    return {
        place.topic: f"{place.topic}-{place.partition} ends on the target at offset {ends[place].offset}, and was "
        f"copied up to {offset}: the target has lost records. Delete {place.topic} there, and it is copied once more"
        for place, offset in begin.items()
        if ends[place].offset < offset
    }


async def _written_by_others(
    target: Admin, side: Side, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, str]:
    """Return what the target has behind what was copied, by topic."""
    found: dict[str, str] = {}
    behind = {place: offset for place, offset in begin.items() if offset < ends[place]}
    starts = await target.list_offsets(behind, "earliest") if behind else {}
    ranges = {place: (max(offset, starts[place].offset), ends[place]) for place, offset in behind.items()}
    async for place, offset in _visible(side, {place: each for place, each in ranges.items() if each[0] < each[1]}):
        found.setdefault(
            place.topic,
            f"{place.topic}-{place.partition} has a record on the target, at offset {offset}, that this copy has not "
            f"written: delete the topic there, or --exclude it",
        )
    return found


async def _visible(
    side: Side, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> AsyncIterator[tuple[TopicPartition, int]]:
    """Yield the first committed record of each of these ranges."""
    left = dict(ranges)
    if not left:
        return
    async with BatchFollower(bootstrap_servers=side.bootstrap, **side.security) as follower:
        follower.follow({place: start for place, (start, _) in left.items()})
        while left:
            for each in await follower.next(_MAX_BYTES, _PATIENCE_MS):
                place = each.topic_partition
                if place not in left:
                    continue
                end = left[place][1]
                seen = [header.base_offset for header, _ in each.batches if header.base_offset < end]
                if seen:
                    yield place, seen[0]
                if seen or each.next_offset >= end:
                    del left[place]


async def _read_state(side: Side, place: TopicPartition, target: Admin) -> tuple[CopyState, int | None]:
    """Return all that is committed, and where something is open behind it."""
    stable = (await target.list_offsets([place], isolation_level="read_committed"))[place].offset
    entries: dict[bytes, bytes | None] = {}
    async with Consumer(bootstrap_servers=side.bootstrap, auto_offset_reset="earliest", **side.security) as consumer:
        consumer.assign([place])
        while await consumer.position(place) < stable:
            for record in await consumer.poll(_PATIENCE_MS, _MANY):
                entries[record.key or b""] = record.value
    end = (await target.list_offsets([place]))[place].offset
    try:
        return replay(entries), None if end == stable else stable
    except (ValueError, KeyError, TypeError) as error:
        raise CopyError(f"{place.topic} on the target has a record that no copy wrote: {error}") from error
