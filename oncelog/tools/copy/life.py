"""One life of a copy: from what the target knows, in rounds, until something fails or changes.

Owns: what is in a transaction and in which order, when it may commit, what of the source ends the copy. Does not own:
what both clusters look like (`survey`), batches (`bundles`), the stored form of positions (`state`), the next life
(`copying`).

A round sends what one look at the source brought, learns at which offsets it is, adds the positions, and commits. Two
things are compared before the commit. The ids of the topics, on both sides: what was fetched before it was compared is
of the topic with that id. And the first offset of each partition on the target, which is where the last round has
ended, if there is no other writer.

State is changed in place while a round runs: one that fails ends the life, and the next begins with what is stored.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import NewTopic
from oncelog.client.consuming.following import BatchFollower, FollowedBatches
from oncelog.client.producing.batch import Delivery
from oncelog.client.producing.producer import Producer
from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.errors import ConfigError, NoOffsetForPartition, UnknownTopic
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ProtocolError
from oncelog.tools.copy.bundles import bundles
from oncelog.tools.copy.groups import GroupCopy, copy_groups
from oncelog.tools.copy.patience import Patience
from oncelog.tools.copy.state import Entry, PartitionCopy, TopicIds, entries_of, on_stored, switched_entry, topic_of
from oncelog.tools.copy.survey import CopyError, Survey, Wish, extents_of, is_copied, lost_records, made_again
from oncelog.tools.transactions import commit

_ROUND_BYTES = 16 << 20
"""How much of the source's log one transaction copies. Twice as much is in memory: fetched ahead, and not acknowledged
yet."""
_LOOK_S = 5.0
"""How often new topics, new partitions and the offsets of groups are looked for."""
_LEAST_ROUND_S = 0.1
"""The least length of a transaction from a source that is written to all the time: each costs a marker on the target,
and a run of the mapping, in each of its partitions."""
_SIGN_S = 3600.0
"""How often an idle copy writes: a transactional id that is idle is forgotten after seven days
(transactional.id.expiration.ms), and a copy that was fenced learns it from a transaction alone."""
_WAIT_MS = 50
"""How long to wait for something to copy while also waiting for a switch-over."""


class LifeEnds(Exception):
    """Raised if something has changed that the next life takes into account."""


@dataclass(slots=True)
class _Partition:
    ids: TopicIds
    copied: PartitionCopy
    target_end: int
    """The expected offset of the next record on the target."""
    high_watermark: int
    has_written: bool = False
    """True if the open transaction has written here: its marker comes behind."""


class Life:
    """One life of a copy, with both clusters as `found`."""

    def __init__(
        self, source: Admin, target: Admin, producer: Producer, wish: Wish, watcher: Patience, found: Survey
    ) -> None:
        self._source, self._target, self._producer = source, target, producer
        self._wish = wish
        self._watcher = watcher
        self._found = found
        self._state_topic = topic_of(found.source_cluster_id)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._follower: BatchFollower | None = None
        self._was_full = False
        """True if the last transaction had as much as one may have, so that there is more."""
        now_s = time.monotonic()
        self._next_look_s = now_s + _LOOK_S
        self._next_sign_s = now_s + _SIGN_S

    # --- the beginning ------------------------------------------------------------------------------------------------

    async def prepare(self, transaction: Transaction) -> None:
        """Create what is missing on the target, and store where each partition begins: a gap before its first record
        is a gap, too."""
        new = [
            NewTopic(plan.name, plan.source.partition_count, configs=plan.configs)
            for plan in self._found.topics
            if plan.target is None
        ]
        if not self._found.has_state_topic:
            new.append(NewTopic(self._state_topic, 1, configs={"cleanup.policy": "compact"}))
        for topic in new:
            await _create(self._target, topic)
        counts = {
            plan.name: plan.source.partition_count
            for plan in self._found.topics
            if plan.target is not None and plan.target.partition_count < plan.source.partition_count
        }
        if counts:
            await self._target.create_partitions(counts)
        names = [plan.name for plan in self._found.topics]
        there = {each.name: each for each in await self._target.describe_topics(*names)} if names else {}
        for plan in self._found.topics:
            if there[plan.name].partition_count != plan.source.partition_count:
                raise LifeEnds(f"not all partitions of {plan.name} are there yet on the target")
            ids = TopicIds(plan.name, plan.source.topic_id, there[plan.name].topic_id)
            for partition, extent in plan.extents.items():
                place = TopicPartition(plan.name, partition)
                copied = plan.copied.get(partition)
                if copied is None:
                    copied = PartitionCopy(extent.start)
                    await self._store(transaction, entries_of(ids, partition, copied))
                target_end = self._found.target_ends.get(place, 0)
                self._partitions[place] = _Partition(ids, copied, target_end, extent.end)

    def read_with(self, follower: BatchFollower) -> None:
        """Read from what is stored on."""
        self._follower = follower
        follower.follow({place: each.copied.next_offset for place, each in self._partitions.items()})

    # --- rounds -------------------------------------------------------------------------------------------------------

    async def ends(self) -> dict[TopicPartition, int]:
        """Return the high watermarks of the source now."""
        return {place: each.end for place, each in (await extents_of(self._source, self._partitions)).items()}

    async def copy_until(self, ends: Mapping[TopicPartition, int]) -> int:
        """Copy everything below these offsets, and wait for transactions that are open there; return the number of
        records."""
        record_count = 0
        while behind := self._behind(ends):
            self._watcher.on_left(sum(ends[place] - self._partitions[place].copied.next_offset for place in behind))
            copied = await self._round(_LOOK_S * 1000)
            if copied is None:
                await self._say_what_waits(ends)
            record_count += copied or 0
            await self._maybe_look()
        return record_count

    async def follow(self, stopped: "asyncio.Future[None] | None" = None) -> None:
        """Copy what comes, and translate offsets of groups, until `stopped`."""
        while stopped is None or not stopped.done():
            began_s = time.monotonic()
            await self._round(_WAIT_MS)
            if await self._maybe_look():
                await self.copy_groups(is_final=False)
            if time.monotonic() >= self._next_sign_s:
                await self._give_a_sign()
            left_s = _LEAST_ROUND_S - (time.monotonic() - began_s)
            if left_s > 0 and not self._was_full:
                await (asyncio.sleep(left_s) if stopped is None else asyncio.wait((stopped,), timeout=left_s))

    def _behind(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        return [
            place
            for place, end in ends.items()
            if place in self._partitions and self._partitions[place].copied.next_offset < end
        ]

    async def _round(self, timeout_ms: float) -> int | None:
        """Copy some of what is there; the number of records, None if nothing came in time."""
        pieces = await self._next(timeout_ms)
        if not pieces:
            return None
        touched = {piece.topic_partition: self._partitions[piece.topic_partition] for piece in pieces}
        async with self._producer.transaction() as transaction:
            sent: list[tuple[_Partition, Sequence[tuple[int, int]], Delivery]] = []
            for piece in pieces:
                partition = touched[piece.topic_partition]
                try:
                    for bundle in bundles(piece.batches, piece.offset):
                        delivery = await transaction.send_batch(*piece.topic_partition, bundle.encoded)
                        sent.append((partition, bundle.runs, delivery))
                except ProtocolError as error:
                    raise CopyError(_unreadable(piece.topic_partition, error)) from error
                partition.copied.next_offset = piece.next_offset
                partition.high_watermark = piece.high_watermark
            await self._check_ids({each.ids.name: each.ids for each in touched.values()})
            for partition, runs, delivery in sent:
                _place(partition, runs, (await delivery).offset)
            for (_, number), partition in touched.items():
                await self._store(transaction, entries_of(partition.ids, number, partition.copied))
            await commit(transaction, self._watcher.on_trouble)
        for partition in touched.values():
            on_stored(partition.copied)
            partition.target_end += partition.has_written
            partition.has_written = False
        return self._on_copied(pieces, sum(count for _, runs, _ in sent for _, count in runs))

    async def _give_a_sign(self) -> None:
        """Commit a transaction that changes nothing."""
        async with self._producer.transaction() as transaction:
            for (_, number), partition in list(self._partitions.items())[:1]:
                await self._store(transaction, entries_of(partition.ids, number, partition.copied))
            await commit(transaction, self._watcher.on_trouble)
        self._next_sign_s = time.monotonic() + _SIGN_S

    async def _next(self, timeout_ms: float) -> list[FollowedBatches]:
        if self._follower is None or not self._partitions:
            await asyncio.sleep(timeout_ms / 1000)
            return []
        try:
            return await self._follower.next(_ROUND_BYTES, timeout_ms)
        except NoOffsetForPartition as error:
            extents = await extents_of(self._source, self._partitions)
            positions = {place: each.copied.next_offset for place, each in self._partitions.items()}
            await self._look()  # a topic that was created again says more than its offsets
            lost = [text for place, at in positions.items() if (text := lost_records(place, at, extents[place]))]
            if lost:
                raise CopyError("; ".join(lost)) from error
            raise LifeEnds(error.message) from error

    def _on_copied(self, pieces: Iterable[FollowedBatches], record_count: int) -> int:
        left = sum(max(0, each.high_watermark - each.copied.next_offset) for each in self._partitions.values())
        size_bytes = sum(piece.size_in_bytes for piece in pieces)
        self._was_full = size_bytes >= _ROUND_BYTES
        self._next_sign_s = time.monotonic() + _SIGN_S
        self._watcher.on_copied(record_count, size_bytes, left)
        return record_count

    async def _store(self, transaction: Transaction, entries: Iterable[Entry]) -> None:
        for key, value in entries:
            await transaction.send_soon(self._state_topic, value, key=key, partition=0)

    # --- what ends a life, or the copy --------------------------------------------------------------------------------

    async def _check_ids(self, topics: Mapping[str, TopicIds]) -> None:
        """Raises CopyError for a topic that is not the source's any more, LifeEnds for the target's."""
        try:
            source, target = await _topic_ids(self._source, topics), await _topic_ids(self._target, topics)
        except UnknownTopic as error:
            await self._look()  # which names the topic, if it is the source's
            raise LifeEnds(error.message) from error
        for name, ids in topics.items():
            if source[name] != ids.source:
                raise CopyError(made_again(name))
            if target[name] != ids.target:
                raise LifeEnds(f"{name} was deleted and created again on the target")

    async def _maybe_look(self) -> bool:
        """Look for changes from time to time; return whether it was now."""
        if time.monotonic() < self._next_look_s:
            return False
        await self._look()
        self._next_look_s = time.monotonic() + _LOOK_S
        return True

    async def _look(self) -> None:
        """Raises CopyError for a topic that is gone or another one, LifeEnds if there is more to copy than before."""
        there = {each.name: each for each in await self._source.describe_topics()}
        for plan in self._found.topics:
            topic = there.pop(plan.name, None)
            if topic is None:
                raise CopyError(
                    f"{plan.name} was deleted on the source; what it had at the end may be missing on the target. To "
                    f"continue with the others, --exclude it"
                )
            if topic.topic_id != plan.source.topic_id:
                raise CopyError(made_again(plan.name))
            if topic.partition_count != plan.source.partition_count:
                raise LifeEnds(f"{plan.name} has {topic.partition_count} partitions now")
        new = [name for name, topic in there.items() if is_copied(topic, self._wish)]
        if new:
            raise LifeEnds(f"there are new topics: {', '.join(new)}")

    async def _say_what_waits(self, ends: Mapping[TopicPartition, int]) -> None:
        behind = self._behind(ends)
        stable = await self._source.list_offsets(behind, isolation_level="read_committed")
        held = {place: stable[place].offset for place in behind if stable[place].offset < ends[place]}
        if held:
            where = ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in held.items())
            self._watcher.on_trouble(f"open transactions on the source are waited for: {where}")

    # --- the end ------------------------------------------------------------------------------------------------------

    async def copy_groups(self, *, is_final: bool) -> list[GroupCopy]:
        """Translate the committed offsets of all groups."""
        partitions = {place: each.copied for place, each in self._partitions.items()}
        found = await copy_groups(self._source, self._target, partitions, is_final=is_final)
        self._watcher.on_groups(found)
        return found

    async def finish(self) -> None:
        """Give the target what it could not have while it was copied to, and end the copy for good."""
        for plan in self._found.topics:
            if plan.stamps_on_append:
                await self._target.alter_configs({"message.timestamp.type": "LogAppendTime"}, topic=plan.name)
        async with self._producer.transaction() as transaction:
            await self._store(transaction, [switched_entry(time.time_ns() // 1_000_000)])
            await commit(transaction, self._watcher.on_trouble)


def _place(partition: _Partition, runs: Sequence[tuple[int, int]], base_offset: int) -> None:
    """Note that these records were written from `base_offset` on. Raises LifeEnds if another writer is active there."""
    if base_offset != partition.target_end:
        raise LifeEnds(
            f"{partition.ids.name} on the target continued at offset {base_offset}, not {partition.target_end}: stop "
            f"whatever else writes to it"
        )
    for source, count in runs:
        partition.copied.runs.append(source, partition.target_end, count)
        partition.target_end += count
    partition.has_written = True


async def _create(target: Admin, topic: NewTopic) -> None:
    """Raises CopyError for settings that the target does not take."""
    try:
        await target.create_topics(topic, exist_ok=True)
    except ConfigError as error:
        raise CopyError(
            f"{topic.name} cannot be created on the target: {error.message}. Create it there yourself, empty and with "
            f"{topic.partition_count} partitions, and repeat the command; or --exclude it"
        ) from error


async def _topic_ids(admin: Admin, names: Collection[str]) -> dict[str, UUID]:
    return {each.name: each.topic_id for each in await admin.describe_topics(*names)}


def _unreadable(place: TopicPartition, error: ProtocolError) -> str:
    return (
        f"{place.topic}-{place.partition} of the source cannot be copied: {error}. Consumers fail on it too; to leave "
        "it out, delete the records up to there (kafka-delete-records.sh) and start the copy again"
    )
