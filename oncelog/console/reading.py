"""What the console asks of a cluster: Kafka's public requests, through our own client.

Owns: one Admin and one Consumer, opened by the first request and kept; how many bytes and batches a look may cost; what
is remembered between two looks. Does not own: what the answers mean (`partition_map`, `life_lines`, `nodes`,
`pending`).
Invariants: only `fence`, `abort`, the writer and the holder change anything. Batches are read again only if the bounds
of their partition have moved, or after some seconds: a page of a partition without writes costs its viewers four
requests for offsets a second.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import islice
from typing import Any, TypeVar, cast

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import (
    ClusterDescription,
    ConfigEntry,
    ListedGroup,
    ListedTransaction,
    PartitionLag,
    ProducerState,
    QuorumDescription,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.admin.share_descriptions import SharePartitionOffset
from oncelog.client.consuming.consumer import Consumer
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.options.option_types import SecurityOptions
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import Record, TopicPartition
from oncelog.console.holding import Holder
from oncelog.console.nodes import Takeovers
from oncelog.console.partition_map import MAX_WINDOW_BYTES, Bounds, Window, better_start, cells_of
from oncelog.console.pending import PendingOffset, pending_offsets
from oncelog.console.searching import MOST_FOUND, Look, Position, Search, Wanted, look_through
from oncelog.console.writing import Writer
from oncelog.http_port import HttpPort
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.protocol.transaction_states import meaning_of
from oncelog.share_groups import ShareGroupUnavailable, SharePartition, ask_share_group
from oncelog.tools.group_types import Group, find
from oncelog.tools.txn import operations
from oncelog.tools.txn.tail import Transition, TransitionReader
from oncelog.witness import Report, ask_witness

_T = TypeVar("_T")
MOST_DESCRIBED = 200
"""The most open and decided transactions whose begin is looked up at a time, each by a request of its own."""
MOST_PENDING_BATCHES = 2_000
_STATE_RECORDS = 40
"""How many records of each partition of `__transaction_state` are read for the list of the newest steps."""
_HISTORY_RECORDS = 1_000
"""How many records of one partition are read for the steps of one transactional id."""
_SEARCHED_PARTITIONS = 16
_SEARCHED_BATCHES = 2_000
"""The most batches of a partition that one look of a search goes through, within the bytes that a window may have."""
SET_FOR_TOPIC = "DYNAMIC_TOPIC_CONFIG"
_MOST_REMEMBERED = 256
_REMEMBERED_S = 10.0
_GUESSES = 2
"""How often the begin of a window is chosen again, by what was read: batches of a log are often alike."""
_NOT_THERE = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


class Reader:
    """A console's view of one cluster. Each method raises KafkaError, ProtocolError or OSError if it cannot be asked,
    and works again as soon as it can."""

    def __init__(
        self,
        bootstrap: str,
        timeout_ms: float,
        witness: HttpPort | None = None,
        security: SecurityOptions | None = None,
        faults: HttpPort | None = None,
    ) -> None:
        """`witness` is the address of a broker's `oncelog.metrics.listen`, which serves its findings, and what share
        groups have in flight; `security` are
        options of the reader's clients; `faults` is a broker's `oncelog.admin.listen`, through which steps are held."""
        self.bootstrap = bootstrap
        self.witness = witness
        self._timeout_ms = timeout_ms
        self._security = security or {}
        self._stack = AsyncExitStack()
        self.writer = Writer(bootstrap, timeout_ms, self._security)
        self.holder = None if faults is None else Holder(faults, timeout_ms)
        self._opening = asyncio.Lock()
        self._clients: tuple[Admin, Consumer] | None = None
        self.takeovers = Takeovers()
        self._memory: dict[Hashable, tuple[Bounds, float, Any]] = {}

    async def close(self) -> None:
        await self.writer.close()
        await self._stack.aclose()

    async def _open(self) -> tuple[Admin, Consumer]:
        async with self._opening:
            if self._clients is None:
                options: Any = {
                    "default_api_timeout_ms": self._timeout_ms,
                    "client_id": "oncelog-console",
                    **self._security,
                }
                async with AsyncExitStack() as stack:
                    admin = await stack.enter_async_context(Admin(self.bootstrap, **options))
                    consumer = await stack.enter_async_context(Consumer(bootstrap_servers=self.bootstrap, **options))
                    self._stack = stack.pop_all()
                    self._clients = admin, consumer
            return self._clients

    async def _admin(self) -> Admin:
        return (await self._open())[0]

    # --- topics and partitions ----------------------------------------------------------------------------------------

    async def cluster(self) -> ClusterDescription:
        return await (await self._admin()).describe_cluster(include_fenced_brokers=True)

    async def quorum(self) -> QuorumDescription:
        found = await (await self._admin()).describe_quorum()
        self.takeovers.look(found)
        return found

    async def topic_names(self) -> list[str]:
        return await (await self._admin()).list_topics(include_internal=True)

    async def topics(self, names: Sequence[str]) -> list[TopicDescription]:
        """Raises UnknownTopic."""
        return await (await self._admin()).describe_topics(*names) if names else []

    async def settings(self, topic: str) -> list[ConfigEntry]:
        """Return the topic's settings by name, those that were set for it first. Raises UnknownTopic."""
        found = await (await self._admin()).describe_config_entries(topic=topic)
        return sorted(found, key=lambda each: (each.source != SET_FOR_TOPIC, each.is_default, each.name))

    async def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the bounds of partitions, read from the first to the last: each only grows, so that they are in order
        whatever happens meanwhile."""
        admin, wanted = await self._admin(), list(places)
        if not wanted:
            return {}
        starts = await admin.list_offsets(wanted, "earliest")
        stable = await admin.list_offsets(wanted, isolation_level="read_committed")
        high = await admin.list_offsets(wanted)
        ends = await admin.list_offsets(wanted, "log_end")
        return {
            each: Bounds(starts[each].offset, stable[each].offset, high[each].offset, ends[each].offset)
            for each in wanted
        }

    async def window(self, place: TopicPartition, start_offset: int | None, count: int) -> Window:
        """Return up to `count` batches from an offset on; without an offset the last ones of the log, about as many."""
        bounds = (await self.bounds((place,)))[place]
        return await self.window_within(place, bounds, start_offset, count)

    async def window_within(
        self, place: TopicPartition, bounds: Bounds, start_offset: int | None, count: int
    ) -> Window:
        return await self._remembered(
            (place, start_offset, count), bounds, lambda: self._read_window(place, bounds, start_offset, count)
        )

    async def _remembered(self, key: Hashable, bounds: Bounds, read: Callable[[], Awaitable[_T]]) -> _T:
        """Return what was read of a partition, until its bounds move or for a while: compaction, or a topic that is
        created again, changes what lies between the same bounds."""
        now_s = asyncio.get_running_loop().time()
        known = self._memory.pop(key, None)
        if known is None or known[0] != bounds or now_s - known[1] > _REMEMBERED_S:
            known = bounds, now_s, await read()
        self._memory[key] = known  # the one that was used last is the last to be dropped
        for oldest in list(islice(self._memory, max(0, len(self._memory) - _MOST_REMEMBERED))):
            del self._memory[oldest]
        value: _T = known[2]
        return value

    async def _read_window(self, place: TopicPartition, bounds: Bounds, start_offset: int | None, count: int) -> Window:
        if start_offset is not None:
            start = min(max(start_offset, bounds.log_start_offset), bounds.high_watermark)
            return await self._read_cells(place, bounds, start, count)
        start = max(bounds.log_start_offset, bounds.high_watermark - count)
        window = await self._read_cells(place, bounds, start, count)
        for _ in range(_GUESSES):
            better = better_start(window, count)
            if better == window.start_offset:
                break
            window = await self._read_cells(place, bounds, better, count)
        return window

    async def _read_cells(self, place: TopicPartition, bounds: Bounds, start: int, count: int) -> Window:
        batches = await self.batches(place, start, bounds, count)
        cells = cells_of(batches)
        is_cut = bool(cells) and cells[-1].next_offset < bounds.high_watermark
        return Window(place, bounds, start, cells, is_cut)

    async def batches(self, place: TopicPartition, start: int, bounds: Bounds, count: int) -> list[RawBatch]:
        """Return up to `count` batches, and as many bytes as a window may have."""
        _, consumer = await self._open()
        found: list[RawBatch] = []
        size_bytes = 0
        if start >= bounds.high_watermark:
            return found
        reading = cast("AsyncGenerator[RawBatch, None]", consumer.raw_batches(place, start))
        async with aclosing(reading) as batches:
            async for batch in batches:
                found.append(batch)
                size_bytes += len(batch.data)
                if len(found) >= count or size_bytes >= MAX_WINDOW_BYTES:
                    break
        return found

    async def search(self, places: Sequence[TopicPartition], start: Position, wanted: Wanted) -> Search:
        """Look through partitions in their order, from a position on, as far as one look may."""
        bounds = await self.bounds(places)
        looks: list[Look] = []
        fetched_bytes, room = 0, MOST_FOUND
        for place in places[start.index :]:
            own = bounds[place]
            given = start.offset if not looks and place == places[start.index] else None
            first = max(own.log_start_offset, given or 0)
            if first >= own.high_watermark:
                continue
            if not room or fetched_bytes >= MAX_WINDOW_BYTES or len(looks) == _SEARCHED_PARTITIONS:
                return Search(looks, Position(places.index(place), first))
            batches = await self.batches(place, first, own, _SEARCHED_BATCHES)
            look = await asyncio.to_thread(look_through, place, batches, first, wanted, room)
            looks.append(look)
            if look.next_offset < own.high_watermark:
                return Search(looks, Position(places.index(place), look.next_offset))
            fetched_bytes += sum(len(each.data) for each in batches)
            room -= len(look.found)
        return Search(looks, None)

    async def producers(self, place: TopicPartition) -> list[ProducerState]:
        """Return the producers with an open transaction first, from the oldest on."""
        found = await (await self._admin()).describe_producers(place)
        return sorted(
            found,
            key=lambda each: (each.transaction_start_offset < 0, each.transaction_start_offset, each.producer_id),
        )

    async def hanging(self, place: TopicPartition, producers: Iterable[ProducerState]) -> list[ProducerState]:
        """Return those of the producers with a transaction open here whose transaction no coordinator will end."""
        candidates = [operations.OpenTransaction(place, each) for each in producers]
        found = await operations.unknown_to_coordinators(await self._admin(), candidates)
        return [each.producer for each in found]

    # --- transactions -------------------------------------------------------------------------------------------------

    async def transactions(self) -> list[ListedTransaction]:
        return await (await self._admin()).find_transactions()

    async def owners(self, producer_ids: Iterable[int]) -> dict[int, ListedTransaction]:
        """Return the transactional id of each producer id that has one now, and its state."""
        wanted = sorted(set(producer_ids))
        if not wanted:
            return {}
        found = await (await self._admin()).find_transactions(producer_ids=wanted)
        return {each.producer_id: each for each in found}

    async def transaction(self, transactional_id: str) -> TransactionDescription:
        """Raises TRANSACTIONAL_ID_NOT_FOUND."""
        return await (await self._admin()).describe_transaction(transactional_id)

    async def unstable_transactions(self, listed: Iterable[ListedTransaction]) -> list[TransactionDescription]:
        """Return those in the list that are open or decided, in its order, up to MOST_DESCRIBED of them."""
        ids = (each.transactional_id for each in listed if meaning_of(each.state).holds_readers)
        return await operations.describe_all(await self._admin(), islice(ids, MOST_DESCRIBED))

    async def newest_steps(self) -> list[Transition]:
        """Return the last transitions in each partition of `__transaction_state`, partition by partition."""
        reader = TransitionReader()
        steps = (_step(reader, record) for records in await self._state_logs(_STATE_RECORDS) for record in records)
        return [step for step in steps if step is not None]

    async def history(self, transactional_id: str) -> list[Transition]:
        """Return the transitions of one id that the end of its coordinator's log has, in order."""
        place = await self._coordinator_log(TRANSACTION_STATE, transactional_id)
        if place is None:
            return []
        bounds = (await self.bounds((place,)))[place]
        reader = TransitionReader()
        steps = (_step(reader, record) for record in await self._last_records(place, bounds, _HISTORY_RECORDS))
        return [step for step in steps if step is not None and step.transactional_id == transactional_id]

    async def _state_logs(self, count: int) -> list[list[Record]]:
        try:
            (topic,) = await self.topics((TRANSACTION_STATE,))
        except KafkaError as error:
            if error.code in _NOT_THERE:
                return []
            raise
        places = [TopicPartition(TRANSACTION_STATE, each.partition) for each in topic.partitions if each.leader >= 0]
        bounds = await self.bounds(places)
        return [await self._last_records(place, bounds[place], count) for place in places]

    async def _last_records(self, place: TopicPartition, bounds: Bounds, count: int) -> list[Record]:
        """Return the last records of a log whose records are small, and not in transactions."""

        async def read() -> list[Record]:
            start = max(bounds.log_start_offset, bounds.high_watermark - count)
            return [each for batch in await self.batches(place, start, bounds, count) for each in batch.records()]

        return await self._remembered((place, count), bounds, read)

    async def _coordinator_log(self, topic: str, identifier: str) -> TopicPartition | None:
        """Return the partition with the records of a transactional id or a group; None if there is none that this
        client may read."""
        try:
            (description,) = await self.topics((topic,))
        except KafkaError as error:
            if error.code in _NOT_THERE:
                return None
            raise
        return TopicPartition(topic, coordinator_partition(identifier, description.partition_count))

    async def fence(self, transactional_id: str) -> int:
        """Returns the epoch below which producers are fenced. Raises TRANSACTIONAL_ID_NOT_FOUND, AlreadyDecided."""
        row = await operations.fence_what_is_open(await self._admin(), transactional_id)
        return int(row["fenced_below"])

    async def abort(self, place: TopicPartition, start_offset: int) -> None:
        """Abort the hanging transaction that the partition has held open since this offset. Raises NotFound."""
        await operations.abort_at(await self._admin(), place, start_offset)

    # --- groups -------------------------------------------------------------------------------------------------------

    async def groups(self) -> list[ListedGroup]:
        return await (await self._admin()).list_groups()

    async def group(self, group_id: str) -> Group:
        """Raises GROUP_ID_NOT_FOUND."""
        return await find(await self._admin(), group_id)

    async def share_offsets(self, group_id: str) -> dict[TopicPartition, SharePartitionOffset]:
        return await (await self._admin()).list_share_group_offsets(group_id)

    async def lag(self, group_id: str) -> list[PartitionLag]:
        return await (await self._admin()).list_group_lag(group_id)

    async def pending(self, group_id: str) -> dict[TopicPartition, PendingOffset]:
        """Return the offsets in open transactions; what a group's log holds above its last stable offset is looked
        through, up to MOST_PENDING_BATCHES batches."""
        place = await self._coordinator_log(CONSUMER_OFFSETS, group_id)
        if place is None:
            return {}
        bounds = (await self.bounds((place,)))[place]
        batches = await self.batches(place, bounds.last_stable_offset, bounds, MOST_PENDING_BATCHES)
        return pending_offsets(group_id, batches)

    # --- what this broker has seen, beside Kafka's protocol -----------------------------------------------------------

    async def share_partitions(self, group_id: str) -> list[SharePartition] | None:
        """Return what a share group has in flight; None if no address was given, or nothing there says it."""
        port = self.witness
        if port is None:
            return None
        try:
            return await asyncio.to_thread(
                ask_share_group,
                port.address,
                group_id,
                self._timeout_ms / 1000,
                token=port.token,
                ca_file=port.ca_file,
            )
        except ShareGroupUnavailable:
            return None

    async def findings(self) -> Report | None:
        """Return the witness's report; None if no address was given. Raises WitnessUnavailable."""
        port = self.witness
        if port is None:
            return None
        return await asyncio.to_thread(
            ask_witness, port.address, self._timeout_ms / 1000, token=port.token, ca_file=port.ca_file
        )


def _step(reader: TransitionReader, record: Record) -> Transition | None:
    """Return the transition in a record; None also for a record of a later release: the list is for a look, and the log
    itself is a page away."""
    try:
        return reader.read(record)
    except (ProtocolError, ValueError):
        return None


def now_ms() -> int:
    """Return the wall clock's time, by which coordinators write the begin of a transaction."""
    return time.time_ns() // 1_000_000
