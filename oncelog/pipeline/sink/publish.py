"""Publishes what the tasks have encoded, and the marker, in one transaction, once.

Owns: the steps and their order (`Step`). Does not own: the decision (`marker.decide`), retries of requests (the
client).
Invariants
- Fence, then read the marker: see the package.
- Everything is acknowledged before EndTxn is sent, and EndTxn is sent again until its outcome is known; if that takes
  too long the batch fails, and the next start learns the outcome from the marker.
- A process may end at any point: before EndTxn is logged nothing is visible, and after it the marker is.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from oncelog.client import (
    CommitUnknown,
    ConfigError,
    ConsumerGroupMetadata,
    Delivery,
    KafkaError,
    Producer,
    ProducerFenced,
    ProducerIdentity,
    Transaction,
)
from oncelog.pipeline.group_offsets import GroupOffsets, checked
from oncelog.pipeline.options import reach_of
from oncelog.pipeline.sink.marker import (
    MARKER_TOPIC,
    Marker,
    check_same,
    decide,
    ensure_topic,
    read_marker,
    read_run_marker,
)
from oncelog.pipeline.sink.spool import TaskOutput
from oncelog.protocol.errors import ErrorCode

logger = logging.getLogger("oncelog.spark.sink")

TRANSACTION_TIMEOUT_MS = 300_000
"""The timeout of the transaction, which is open only while the driver sends: five minutes are some 20 GB. A driver that
dies while it sends blocks read_committed readers of the topics for as long, or until it is started again."""
DEFAULTS: Mapping[str, Any] = {
    "batch_size": 256 << 10,  # a broker accepts 1 MiB by default (message.max.bytes)
    "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
    "delivery_timeout_ms": TRANSACTION_TIMEOUT_MS,
    "max_block_ms": 120_000,
    "buffer_memory": 64 << 20,
    "client_id": "oncelog-spark-sink",
}


class Step(Enum):
    """The steps of publishing a batch, in order. FENCE connects, too: opening a producer is one call. SEND happens once
    for each output, SEND_OFFSETS with a commitGroup."""

    FENCE = "fence"
    READ_MARKER = "read the marker"
    SEND = "send"
    SEND_MARKER = "send the marker"
    SEND_OFFSETS = "send the offsets"
    FLUSH = "flush"
    END = "end the transaction"


Moment = Literal["before", "after"]
OnStep = Callable[[Step, Moment], Awaitable[None]]
"""Called around each step: to measure it, and for tests to end there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a batch."""

    batch_id: int
    published: bool
    """Whether the batch was published; if not, the marker showed that it was already applied."""
    outputs: dict[str, int]
    """The number of records by output; those of the batch that was applied, if this one was skipped."""
    producer_epoch: int
    seconds: dict[str, float] = field(default_factory=dict)
    """The seconds of each step."""
    sink_id: str = ""
    """The transactional id of the sink."""
    marker_offset: int = -1
    """The offset of the marker in its topic: the next batch looks for it from there on."""
    tables: dict[str, bool] = field(default_factory=dict)
    """Whether the batch was added to each Delta table, by output; if not, the table had it already."""

    @property
    def records(self) -> int:
        return sum(self.outputs.values())


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The brokers to publish to, and the login."""

    bootstrap_servers: str
    sink_id: str
    """The transactional id, and the marker's key."""
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The options of the Producer."""
    marker_topic: str = MARKER_TOPIC
    marker_hint: int = -1
    """The `marker_offset` of an earlier batch, if one is known."""
    former_id: str = ""
    """The key under which an earlier version left the marker of a batch write."""
    title: str = ""
    """The sink's name for people: the runId of a batch write."""

    def producer_options(self) -> dict[str, Any]:
        # What tasks have compressed is sent as it is.
        chosen = {name: value for name, value in self.client.items() if name != "compression_type"}
        options = {**DEFAULTS, **chosen}
        return {**options, "bootstrap_timeout_ms": options["max_block_ms"]}


async def _ignore(step: Step, moment: Moment) -> None:
    """Do nothing, as the default observer."""


async def publish(
    settings: SinkSettings,
    wanted: Marker | None,
    outputs: Sequence[TaskOutput],
    on_step: OnStep = _ignore,
    group_offsets: GroupOffsets | None = None,
) -> Outcome:
    """Publish one batch unless it is applied already. Without a marker (`wanted`) it is one transaction and no more.
    The offsets of a group are committed with it.

    Raises MarkerMismatch, SpoolLost, ConfigError with what to change, and the client's errors; unless it is
    CommitUnknown, nothing of the batch is visible then.
    """
    seconds: dict[str, float] = {}
    counts: dict[str, int] = {}
    for output in outputs:
        counts[output.name] = counts.get(output.name, 0) + output.record_count
    if wanted is not None:
        wanted = replace(wanted, outputs=counts, digest=_digest(outputs))

    async def around(step: Step, work: Awaitable[Any]) -> Any:
        await on_step(step, "before")
        began_s = time.perf_counter()
        result = await work
        seconds[step.value] = seconds.get(step.value, 0.0) + time.perf_counter() - began_s
        await on_step(step, "after")
        return result

    batch_id = -1 if wanted is None else wanted.batch_id
    producer = Producer(settings.bootstrap_servers, transactional_id=settings.sink_id, **settings.producer_options())
    async with AsyncExitStack() as stack:
        epoch = (await around(Step.FENCE, _fence(stack, producer))).producer_epoch
        if wanted is not None:
            marker, offset = await around(Step.READ_MARKER, _read(settings))
            if not decide(wanted, marker):
                check_same(wanted, marker, settings.title)
                _say_skipped(settings, marker, counts)
                return Outcome(batch_id, False, marker.outputs, epoch, seconds, settings.sink_id, offset)
        async with producer.transaction() as transaction:
            for name in counts:
                await around(Step.SEND, _send(transaction, [each for each in outputs if each.name == name]))
            sent: Delivery | None = None
            if wanted is not None:
                sent = await around(Step.SEND_MARKER, _send_marker(transaction, settings, wanted))
            if group_offsets is not None:
                await around(Step.SEND_OFFSETS, _send_offsets(transaction, settings, group_offsets))
            await around(Step.FLUSH, producer.flush())
            await around(Step.END, _end(transaction, settings.producer_options()["transaction_timeout_ms"]))
        offset = -1 if sent is None else sent.result().offset
        return Outcome(batch_id, True, counts, epoch, seconds, settings.sink_id, offset)


def _digest(outputs: Sequence[TaskOutput]) -> str:
    """Return the digest of a batch's rows, empty where none is asked for."""
    total = sum(output.digest for output in outputs) % (1 << 128)
    return f"{total:032x}" if total else ""


def _say_skipped(settings: SinkSettings, marker: Marker, counts: Mapping[str, int]) -> None:
    what = f"{settings.title or f'batch {marker.batch_id} of {settings.sink_id}'} was published already and is skipped"
    then, now = (
        ", ".join(f"{count} records of {name}" for name, count in sorted(each.items()) if count) or "no records"
        for each in (marker.outputs, counts)
    )
    logger.warning("%s: %s%s", what, then, "" if then == now else f" then, and {now} as it is computed now")


async def _fence(stack: AsyncExitStack, producer: Producer) -> ProducerIdentity:
    try:
        await stack.enter_async_context(producer)
        return await producer.init_transactions()  # not another request: the identity that opening brought
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise ConfigError(
                "kafka.transaction.timeout.ms is above what the broker allows",
                hint="lower it, or raise transaction.max.timeout.ms of the broker",
            ) from error
        raise


async def _read(settings: SinkSettings) -> tuple[Marker | None, int]:
    servers, topic, reach = settings.bootstrap_servers, settings.marker_topic, reach_of(settings.producer_options())
    await ensure_topic(servers, topic, reach)
    if settings.former_id:
        return await read_run_marker(servers, topic, settings.sink_id, settings.former_id, reach)
    return await read_marker(servers, topic, settings.sink_id, settings.marker_hint, reach)


async def _send(transaction: Transaction, outputs: Sequence[TaskOutput]) -> None:
    for output in outputs:
        for topic, partition, batch in output.batches():
            await transaction.send_batch(topic, partition, batch)


async def _send_marker(transaction: Transaction, settings: SinkSettings, wanted: Marker) -> Delivery:
    key = settings.sink_id.encode()
    return await transaction.send_soon(settings.marker_topic, wanted.encode(), key=key, partition=0)


async def _send_offsets(transaction: Transaction, settings: SinkSettings, wanted: GroupOffsets) -> None:
    offsets = await checked(settings.bootstrap_servers, reach_of(settings.producer_options()), wanted)
    if offsets:
        await transaction.send_offsets(offsets, group=ConsumerGroupMetadata(wanted.group_id))


async def _end(transaction: Transaction, patience_ms: float) -> None:
    give_up_s = asyncio.get_running_loop().time() + patience_ms / 1000
    while True:
        try:
            await transaction.commit()
            return
        except CommitUnknown as error:
            if asyncio.get_running_loop().time() > give_up_s:
                error.add_note("whether the batch was published is decided by its marker, at the next start")
                raise
        except ProducerFenced as error:
            if error.commit_unknown:
                error.add_note("whether the batch was published is decided by its marker, at the next start")
            raise
