"""The copy of one cluster to another: life after life until it is done.

Owns: which failures pass by themselves, fencing, the order of a switch-over. Does not own: a life (`life`).

A life begins inside a transaction of the copy's own: by then nothing of an earlier one is undecided, neither of this
process nor of one that was killed, and what the target says is all there is. A broker that is away ends the life, and
the next one begins once it is back. The producer stays the same over all lives, so that a copy that was fenced learns
it instead of fencing the other one in return.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from oncelog.client.admin.client import Admin
from oncelog.client.consuming.following import BatchFollower
from oncelog.client.producing.producer import Producer
from oncelog.client.values.errors import KafkaError, ProducerFenced
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.transaction_states import meaning_of
from oncelog.tools.copy.groups import GroupCopy
from oncelog.tools.copy.life import Life, LifeEnds
from oncelog.tools.copy.patience import Patience, Watcher
from oncelog.tools.copy.state import topic_of, transactional_id_of
from oncelog.tools.copy.survey import CopyError, Side, Survey, Wish, places_of, survey
from oncelog.tools.transactions import commit, passes, regain

_BUFFER_BYTES = 32 << 20
_QUEUED_BYTES = 64 << 20
_FETCH_BYTES = 4 << 20
_PAUSE_S = 0.5
_HANGING_S = 10.0
"""How long a transaction may lack markers before it is called hanging: what a coordinator has ended has all its markers
after some milliseconds."""
_CLIENT_ID = "oncelog-copy"
_TAKEN_OVER = "another copy of the same two clusters has taken over: one can run at a time, for all topics together"
_QUIET_LOOKS = 3
"""How often to look in a switch-over: a transaction that ends meanwhile adds its markers, and nothing else may be
added."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a copy that ended by itself."""

    groups: Sequence[GroupCopy]
    hold_s: float | None = None
    """The seconds of a switch-over from when the clients were stopped until the target had everything."""


class Copier:
    """A copy of one cluster to another."""

    def __init__(
        self,
        source: Side,
        target: Side,
        wish: Wish,
        watcher: Watcher,
        timeout_ms: float = 10_000,
        patience_s: float | None = None,
    ) -> None:
        """`timeout_ms` limits a call of an administrator, `patience_s` the time without progress of a copy that ends by
        itself."""
        self._source, self._target = source, target
        self._wish = wish
        self._watcher = Patience(watcher, patience_s)
        self._timeout_ms = timeout_ms
        self._stopped_at_s: float | None = None
        self._open_offset = -1
        self._open_since_s = 0.0

    async def preview(self, *, ends: bool = False) -> Survey:
        """Return what `run` would do. Changes nothing. Raises CopyError for a copy that `ends` and has nothing to copy
        of the wish."""
        async with self._admins() as (source, target):
            found = await survey(source, target, self._target, self._wish)
        if ends:
            found.require_topics(self._wish)
        return found

    async def run(self, *, once: bool = False, switch: bool = False) -> Outcome:
        """Copy: `once` what is committed by now, with `switch` until a switch-over, otherwise without an end.

        Raises CopyError, and KafkaError for what does not pass by itself; until the first survey is made, also if a
        broker does not respond; RequestTimedOut after `patience_s`.
        """
        async with self._watcher.limit():
            return await self._run(once=once, switch=switch)

    async def _run(self, *, once: bool, switch: bool) -> Outcome:
        found = await self.preview(ends=once or switch)
        found.require_possible()
        self._watcher.on_step()
        ends = {place: plan.extents[place.partition].end for plan in found.topics for place in places_of(plan.source)}
        async with Producer(
            self._target.bootstrap,
            transactional_id=transactional_id_of(found.source_cluster_id, found.target_cluster_id),
            max_request_size=_FETCH_BYTES,
            buffer_memory=_BUFFER_BYTES,
            client_id=_CLIENT_ID,
            **self._watcher.deadlines(),
            **self._target.security,
        ) as producer:
            while True:
                problem = ""
                try:
                    async with self._life(producer) as life:
                        if once:
                            await life.copy_until(ends)
                            return Outcome(await life.copy_groups(is_final=False))
                        if switch:
                            return await self._switch_over(life)
                        await life.follow()
                except LifeEnds as change:
                    problem = str(change)
                except ProducerFenced as error:
                    problem = await regain(producer, error, CopyError(_TAKEN_OVER))
                except KafkaError as error:
                    if not passes(error):
                        raise
                    problem = error.message
                self._watcher.on_trouble(problem)
                await asyncio.sleep(_PAUSE_S)

    @asynccontextmanager
    async def _life(self, producer: Producer) -> AsyncIterator[Life]:
        async with self._admins() as (source, target):
            async with producer.transaction() as transaction:
                found = await survey(source, target, self._target, self._wish)
                await self._require_settled(target, found)
                found.require_possible()
                self._watcher.on_survey(found)
                life = Life(source, target, producer, self._wish, self._watcher, found)
                await life.prepare(transaction)
                await commit(transaction, self._watcher.on_trouble)
            async with BatchFollower(
                bootstrap_servers=self._source.bootstrap,
                max_partition_fetch_bytes=_FETCH_BYTES,
                queued_max_bytes=_QUEUED_BYTES,
                client_id=_CLIENT_ID,
                **self._source.security,
            ) as follower:
                life.read_with(follower)
                yield life

    async def _require_settled(self, target: Admin, found: Survey) -> None:
        """Raise LifeEnds while the last transaction is not complete, and CopyError if none will complete it."""
        if found.open_offset is None:
            return
        if found.open_offset != self._open_offset:
            self._open_offset, self._open_since_s = found.open_offset, time.monotonic()
        own_id = transactional_id_of(found.source_cluster_id, found.target_cluster_id)
        described = await target.describe_transaction(own_id)
        if not meaning_of(described.state).holds_readers and time.monotonic() - self._open_since_s >= _HANGING_S:
            topic = topic_of(found.source_cluster_id)
            raise CopyError(
                f"a transaction hangs on the target, in {topic}-0 at offset {found.open_offset}: the coordinator does "
                f"not know it any more. What it wrote is copied again once it is ended: `oncelog txn abort "
                f"--topic {topic} --partition 0 --start-offset {found.open_offset} -b {self._target.bootstrap}`"
            )
        raise LifeEnds("the last transaction of the copy is not complete yet on the target")

    @asynccontextmanager
    async def _admins(self) -> AsyncIterator[tuple[Admin, Admin]]:
        async with self._admin(self._source) as source, self._admin(self._target) as target:
            yield source, target

    def _admin(self, side: Side) -> Admin:
        return Admin(side.bootstrap, default_api_timeout_ms=self._timeout_ms, client_id=_CLIENT_ID, **side.security)

    async def _switch_over(self, life: Life) -> Outcome:
        """Copy until everything is there, have the clients stopped, and copy what they have written by then."""
        if self._stopped_at_s is None:
            await life.copy_until(await life.ends())
            stopped = asyncio.ensure_future(self._watcher.until_stopped())
            try:
                await life.follow(stopped)
            finally:
                stopped.cancel()
            self._stopped_at_s = time.monotonic()
        ends = await life.ends()
        await life.copy_until(ends)
        groups = await life.copy_groups(is_final=True)
        await _require_quiet(life, ends)
        await life.finish()
        return Outcome(groups, time.monotonic() - self._stopped_at_s)


async def _require_quiet(life: Life, ends: Mapping[TopicPartition, int]) -> None:
    """Raises CopyError if the source is still written to."""
    for _ in range(_QUIET_LOOKS):
        now = await life.ends()
        if now == ends:
            return
        written = [f"{place.topic}-{place.partition}" for place, end in now.items() if end != ends.get(place)]
        if await life.copy_until(now):
            break
        ends = now
    raise CopyError(
        f"the source is still written to, in {', '.join(written)}: nothing is switched, and clients stay there. Stop "
        f"them and repeat the command"
    )
