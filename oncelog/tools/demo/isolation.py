"""`oncelog demo isolation`: what the two isolation levels see of an aborted, a plain and a committed write.

Owns: the experiment and its drawing. Works against any Kafka-compatible broker; without `--bootstrap` it starts its own
daemon in a temporary directory. Everything is in one partition, in the order written, and the isolation level decides
what a reader sees.
"""

import asyncio
import tempfile
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from oncelog.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.protocol.errors import ProtocolError
from oncelog.tools.demo.daemon import DemoDaemon
from oncelog.tools.demo.stage import DemoFailed
from oncelog.tools.terminal import marked, say, say_json

Isolation = Literal["read_committed", "read_uncommitted"]
_LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
_POLL_MS = 500
_SETTLE_S = 30.0
_CONNECT_TIMEOUT_MS = 5_000.0


@dataclass(frozen=True, slots=True)
class BatchView:
    """One batch of the partition as the drawing shows it."""

    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    state: str
    """The state of the batch: plain, open, committed or aborted; for control batches COMMIT or ABORT."""
    values: list[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """The values that one reader read, by offset, and its final position."""

    isolation_level: Isolation
    values: dict[int, str]
    position_before: int
    position_after: int


@dataclass(frozen=True, slots=True)
class Scene:
    """The partition at one moment, and what each reader sees of it."""

    title: str
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    batches: list[BatchView]
    readings: list[Reading]


async def run_experiment(bootstrap: str) -> list[Scene]:
    """Write, and inspect the partition after each step. Raises KafkaError."""
    topic = f"isolation-{uuid.uuid4().hex[:8]}"
    partition = TopicPartition(topic, 0)
    scenes = []
    async with Admin(bootstrap, default_api_timeout_ms=_CONNECT_TIMEOUT_MS) as admin:
        await admin.create_topics(NewTopic(topic, 1))
        async with (
            Producer(bootstrap, transactional_id=f"demo-{uuid.uuid4().hex[:8]}") as producer,
            Producer(bootstrap) as plain,
        ):
            transaction = producer.transaction()
            await transaction.__aenter__()
            await transaction.send(topic, b"order 1", partition=0)
            await transaction.send(topic, b"order 2", partition=0)
            await transaction.abort()
            await _wait_for_marker(bootstrap, partition)
            await plain.send(topic, b"plain note", partition=0)
            scenes.append(await _observe(bootstrap, partition, "An aborted transaction, then a plain write"))
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"order 3", partition=0)
                await plain.send(topic, b"a second note", partition=0)
                title = "A second transaction is open: its first record is the last stable offset"
                scenes.append(await _observe(bootstrap, partition, title))
            await _wait_for_marker(bootstrap, partition)
            scenes.append(await _observe(bootstrap, partition, "It has committed"))
    return scenes


async def _wait_for_marker(bootstrap: str, partition: TopicPartition) -> None:
    """Wait for the marker, which a broker writes shortly after its response. Raises DemoFailed."""
    try:
        async with asyncio.timeout(_SETTLE_S):
            while True:
                stable = await _end(bootstrap, partition, "read_committed")
                if stable == await _end(bootstrap, partition, "read_uncommitted"):
                    return
    except TimeoutError:
        raise DemoFailed(f"the transaction's marker was not written within {_SETTLE_S:g} s") from None


async def _end(bootstrap: str, partition: TopicPartition, level: Isolation) -> int:
    async with Consumer(bootstrap_servers=bootstrap, isolation_level=level) as consumer:
        return (await consumer.end_offsets([partition]))[partition]


async def _observe(bootstrap: str, partition: TopicPartition, title: str) -> Scene:
    readings = [await _read(bootstrap, partition, level) for level in _LEVELS]
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        raw = [batch async for batch in consumer.raw_batches(partition)]
        start = (await consumer.beginning_offsets([partition]))[partition]
    last = raw[-1]
    views = [_view(batch) for batch in raw]
    return Scene(title, start, last.last_stable_offset, last.high_watermark, views, readings)


def _view(batch: RawBatch) -> BatchView:
    header = batch.header
    return BatchView(
        header.base_offset,
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
        batch.control_type.name if batch.control_type is not None else batch.fate,
        [_text(record.value) for record in batch.records()],
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


async def _read(bootstrap: str, partition: TopicPartition, level: Isolation) -> Reading:
    async with Consumer(bootstrap_servers=bootstrap, isolation_level=level, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        before = position = await consumer.position(partition)
        values: dict[int, str] = {}
        while position < end:
            for record in await consumer.poll(_POLL_MS):
                values[record.offset] = _text(record.value)
            position = await consumer.position(partition)
        return Reading(level, values, before, position)


# --- drawing ----------------------------------------------------------------------------------------------------------

_COLOURS = {
    "plain": "white on grey37",
    "open": "black on yellow",
    "committed": "white on dark_green",
    "aborted": "white on red3",
    "COMMIT": "green",
    "ABORT": "red",
}


_LETTERS = {"plain": ".", "open": "O", "committed": "C", "aborted": "A"}
"""The letters that `oncelog log map` has."""


def draw(scenes: list[Scene], console: Any) -> None:
    """Draw each scene: the partition as a strip, its batches as a table, both readers side by side."""
    from rich.table import Table

    for number, scene in enumerate(scenes, 1):
        console.rule(f"[bold]{number}. {scene.title}")
        console.print(_strip(scene))
        table = Table(box=None, padding=(0, 1), header_style="bold")
        for column in ("offsets", "producer", "epoch", "transactional", "control", "state", "records"):
            table.add_column(column, justify="right" if column in ("offsets", "producer", "epoch") else "left")
        for batch in scene.batches:
            colour = _COLOURS[batch.state]
            table.add_row(
                _offsets(batch),
                str(batch.producer_id) if batch.producer_id >= 0 else "-",
                str(batch.producer_epoch) if batch.producer_epoch >= 0 else "-",
                "yes" if batch.is_transactional else "-",
                "yes" if batch.is_control else "-",
                f"[{colour}] {batch.state} [/]",
                marked(", ".join(batch.values)),
            )
        console.print(table)
        console.print(_side_by_side(scene))
    console.print(
        "read_committed stops at the last stable offset and drops aborted records; both positions move past markers, "
        "which take an offset and give no record.",
        style="dim",
    )


def _offsets(batch: BatchView) -> str:
    one = batch.first_offset == batch.last_offset
    return str(batch.first_offset) if one else f"{batch.first_offset}-{batch.last_offset}"


def _strip(scene: Scene) -> Any:
    """Draw one cell per offset, with a letter for its colour, and below it the last stable offset and the high
    watermark."""
    from rich.text import Text

    cells, ruler, names = Text("  "), Text("  "), Text("  ")
    states = {
        offset: batch.state for batch in scene.batches for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    marks: dict[int, list[str]] = {}
    marks.setdefault(scene.last_stable_offset, []).append("LSO")
    marks.setdefault(scene.high_watermark, []).append("HW")
    width = 8
    for offset in range(scene.log_start_offset, scene.high_watermark + 1):
        state = states.get(offset)
        label = "" if state is None else (f"◆{state}" if state.isupper() else f"{_LETTERS[state]} {offset}")
        cells.append(label.center(width - 1), _COLOURS.get(state or "", ""))
        cells.append(" ")
        here = marks.get(offset, [])
        ruler.append(("▲" if here else " ").ljust(width))
        names.append("=".join(here).ljust(width))
    return Text("\n").join([Text(""), cells, ruler, names])


def _value(reading: Reading, offset: int) -> str:
    value = reading.values.get(offset)
    return "[dim]·[/]" if value is None else marked(value)


def _side_by_side(scene: Scene) -> Any:
    from rich.table import Table

    table = Table(title="the same partition, read twice", title_justify="left", title_style="bold")
    table.add_column("offset", justify="right")
    for reading in scene.readings:
        table.add_column(reading.isolation_level)
    offsets = sorted({offset for reading in scene.readings for offset in reading.values})
    for offset in offsets:
        table.add_row(str(offset), *(_value(reading, offset) for reading in scene.readings))
    table.add_section()
    table.add_row("position", *(f"{reading.position_before} → {reading.position_after}" for reading in scene.readings))
    return table


# --- running ----------------------------------------------------------------------------------------------------------


def run(*, bootstrap: str | None, as_json: bool) -> int:
    """Run the command: the experiment, drawn or as JSON; return the exit code."""
    try:
        if bootstrap is not None:
            scenes = asyncio.run(run_experiment(bootstrap))
        else:
            with (
                tempfile.TemporaryDirectory(prefix="oncelog-demo-") as directory,
                DemoDaemon(Path(directory)) as daemon,
            ):
                scenes = asyncio.run(run_experiment(daemon.bootstrap))
    except (KafkaError, ProtocolError, DemoFailed) as error:
        say(f"oncelog demo isolation: {error}", err=True)
        return 1
    if as_json:
        say_json([asdict(scene) for scene in scenes])
        return 0
    from rich.console import Console

    draw(scenes, Console(emoji=False))
    return 0
