"""Where a consumer stands in each partition: what was returned, what was read ahead, where to start.

Owns: records read ahead, which are not returned yet (for the iterator, or for a batch that is being filled), the
offsets to commit, the start of partitions that have no position. Does not own: fetching (`fetcher`), commits.
Invariant: a position never covers a record that was not returned.
"""

from collections.abc import Collection, Iterable

from oncelog.client.consuming.fetcher import Fetcher
from oncelog.client.consuming.partition_state import PartitionState
from oncelog.client.groups.membership import Membership
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import NoOffsetForPartition
from oncelog.client.values.records import Lag, OffsetAndMetadata, Record, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.offsets import EARLIEST, LATEST, list_offsets

_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class Positions:
    def __init__(
        self, cluster: Cluster, group: Membership | None, fetcher: Fetcher, settings: ConsumerSettings
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._fetcher = fetcher
        self._settings = settings
        self._ahead: list[Record] = []
        """The records read ahead, returned up to `_ahead_index`."""
        self._ahead_index = 0
        self._marks_processed = settings.enable_auto_commit or settings.on_revoke is not None
        """True if something may commit when the consumer is closed."""
        self._processed: dict[PartitionState, int] = {}
        """The position of each partition when the last poll began."""

    # --- records read ahead -------------------------------------------------------------------------------------------

    @property
    def has_ahead(self) -> bool:
        return self._ahead_index < len(self._ahead)

    @property
    def ahead_count(self) -> int:
        return len(self._ahead) - self._ahead_index

    def next_ahead(self) -> Record | None:
        if self._ahead_index >= len(self._ahead):
            return None
        record = self._ahead[self._ahead_index]
        self._ahead_index += 1
        return record

    def take_ahead(self, limit: int) -> list[Record]:
        start, end = self._ahead_index, len(self._ahead)
        if start == 0 and end <= limit:
            taken, self._ahead = self._ahead, []
            return taken
        self._ahead_index = min(end, start + limit)
        return self._ahead[start : self._ahead_index]

    def add_ahead(self, records: list[Record]) -> None:
        """Add the records that were taken last."""
        if self.has_ahead:
            self._ahead += records
        else:
            self._put_ahead(records)

    def put_back(self, records: list[Record]) -> None:
        """Put back the records of the last return, which are not returned after all."""
        self._put_ahead(records + self._ahead[self._ahead_index :])

    def give_back(self, partitions: Collection[TopicPartition]) -> None:
        """Drop what is read ahead of these partitions and fetch it again: their positions move back."""
        self.rewind([each for each in self._ahead[self._ahead_index :] if each.topic_partition in partitions])

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records ahead of these partitions, which are given up."""
        if self.has_ahead:
            left = self._ahead[self._ahead_index :]
            self._put_ahead([each for each in left if each.topic_partition not in partitions])

    def rewind(self, records: Iterable[Record]) -> None:
        """Move back to before these records, which are not returned; what is ahead of their partitions comes after
        them."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        for topic_partition, offset in first.items():
            state = self._fetcher.partitions.get(topic_partition)
            if state is not None:
                state.seek(offset)
        self.forget(first)
        self._fetcher.wake()

    def _put_ahead(self, records: list[Record]) -> None:
        self._ahead, self._ahead_index = records, 0

    # --- what is processed --------------------------------------------------------------------------------------------

    def mark_processed(self) -> None:
        """Note that the program has processed what was returned, since it asks for more."""
        if self._marks_processed:
            self._processed = {state: self.next_offset(state) for state in self._fetcher.partitions.values()}

    def back_to_processed(self) -> None:
        """Move back to what is known to be processed: the program has failed, and no commit must cover records that it
        may not have processed. Reading has ended."""
        self._put_ahead([])
        for state in self._fetcher.partitions.values():
            processed = self._processed.get(state, -1)
            if state.position >= processed:
                state.seek(processed)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def next_offset(self, state: PartitionState) -> int:
        """Return the next offset to return: records read ahead are not consumed yet."""
        for record in self._ahead[self._ahead_index :]:
            if record.partition == state.topic_partition.partition and record.topic == state.topic_partition.topic:
                return record.offset
        return state.position

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: those after everything that was returned."""
        return {
            state.topic_partition: OffsetAndMetadata(self.next_offset(state))
            for state in self._fetcher.partitions.values()
            if state.position >= 0
        }

    @property
    def are_known(self) -> bool:
        return not self._unknown()

    @property
    def are_known_where_led(self) -> bool:
        """Whether all positions are known, except of partitions without a leader: their starts cannot be looked up."""
        unknown = self._unknown()
        leaderless = [each for each in unknown if self._cluster.metadata.leader(each) < 0]
        if leaderless:
            self._cluster.refresh_soon({each.topic for each in leaderless}, self._fetcher.notify)
        return len(leaderless) == len(unknown)

    def _unknown(self) -> list[TopicPartition]:
        states = self._fetcher.partitions
        return [each for each, state in states.items() if state.position < 0 or state.out_of_range]

    async def find(self, deadline: Deadline, *, waits_for_leaders: bool = True) -> None:
        """Find each position: the group's committed offset, or else what auto.offset.reset selects."""
        states = self._fetcher.partitions
        settings = self._settings
        missing = [each for each, state in states.items() if state.position < 0]
        if missing and self._group is not None:
            committed = await self._group.committed(missing, deadline, require_stable=settings.reads_committed)
            for topic_partition, offset in committed.items():
                state = states.get(topic_partition)
                if state is not None and state.position < 0:
                    state.seek(offset.offset)
                    state.start = offset.offset if state.start < 0 else state.start
            for state in [states[each] for each in missing if each in states]:
                if state.position < 0 <= state.start:
                    state.seek(state.start)
        lost = [each for each in self._unknown() if waits_for_leaders or self._cluster.metadata.leader(each) >= 0]
        if lost:
            reset = _RESETS.get(settings.auto_offset_reset)
            if reset is None:
                raise NoOffsetForPartition(f"no valid offset for {lost[0].topic}-{lost[0].partition}")
            before = {each: states[each].position for each in lost}
            found = await list_offsets(self._cluster, dict.fromkeys(lost, reset), settings.isolation_level, deadline)
            for topic_partition, where in found.items():
                state = states.get(topic_partition)
                if state is not None and state.position == before[topic_partition]:
                    state.seek(where.offset)
                    state.start = where.offset
        self._fetcher.wake()

    async def lag(self, partitions: Collection[TopicPartition], deadline: Deadline) -> dict[TopicPartition, Lag]:
        """Return the lag of those partitions that are still assigned when the brokers have responded."""
        if not self.are_known:
            await self.find(deadline)
        latest = dict.fromkeys(partitions, LATEST)
        stable = await list_offsets(self._cluster, latest, "read_committed", deadline)
        ends = await list_offsets(self._cluster, latest, "read_uncommitted", deadline)
        return {
            each: self._lag(self._fetcher.partitions[each], stable[each].offset, ends[each].offset)
            for each in partitions
            if each in self._fetcher.partitions
        }

    def _lag(self, state: PartitionState, last_stable_offset: int, high_watermark: int) -> Lag:
        may_read = last_stable_offset if self._settings.reads_committed else high_watermark
        ahead_count = sum(each.topic_partition == state.topic_partition for each in self._ahead[self._ahead_index :])
        buffered_count, is_exact = state.buffered_records()
        unknown_count = max(0, may_read - state.next_fetch_offset)
        return Lag(
            self.next_offset(state),
            last_stable_offset,
            high_watermark,
            ahead_count + buffered_count + unknown_count,
            is_exact and not unknown_count,
        )

    async def find_again(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Do as `find` for partitions that have positions."""
        self.forget(partitions)
        for each in partitions:
            self._fetcher.partitions[each].seek(-1)
            self._fetcher.partitions[each].start = -1
        await self.find(deadline)

    def distrust(self) -> None:
        """Take every position from the group before more is read; where the group has none, the start of reading."""
        self._put_ahead([])
        for state in self._fetcher.partitions.values():
            state.seek(-1)
