"""Draws docs/images/transaction_states.svg from the table of transitions, and transaction_timeline.svg from a real run.

`make pages` writes the first. The second shows the times of one run, so it changes only when it is recorded again:

    python -m tools.draw_transactions

which starts a daemon, commits, aborts, and follows it by `txn tail`. Both are readable on light and dark pages: each
carries its own background.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from oncelog.broker.coordinator.transaction.states import VALID_PREVIOUS_STATES, TransactionState

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
PAPER, INK, GREY, LINE = "#fbfbf9", "#1f2933", "#5c6975", "#8795a1"
FILLS = {
    "Empty": "#e4e7eb",
    "Ongoing": "#f7e3a1",
    "PrepareCommit": "#bfe3f2",
    "PrepareAbort": "#ead1ee",
    "CompleteCommit": "#bfe8d2",
    "CompleteAbort": "#f8cfcf",
    "Dead": "#cbd2d9",
    "PrepareEpochFence": "#e4e7eb",
}
FONT = "font-family='ui-sans-serif, system-ui, Helvetica, Arial, sans-serif'"
BOX_WIDTH, BOX_HEIGHT = 164, 44
_S = TransactionState
PLACES = {
    _S.EMPTY: (40, 250),
    _S.DEAD: (870, 520),
    _S.ONGOING: (330, 110),
    _S.PREPARE_EPOCH_FENCE: (290, 500),
    _S.PREPARE_COMMIT: (590, 60),
    _S.PREPARE_ABORT: (490, 325),
    _S.COMPLETE_COMMIT: (850, 170),
    _S.COMPLETE_ABORT: (730, 325),
}
SOLID = {
    (_S.EMPTY, _S.ONGOING),
    (_S.ONGOING, _S.PREPARE_COMMIT),
    (_S.ONGOING, _S.PREPARE_ABORT),
    (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT),
    (_S.PREPARE_ABORT, _S.COMPLETE_ABORT),
}
"""The life of one transaction; everything else is drawn dashed."""


def text(x: float, y: float, words: str, size: int = 14, colour: str = INK, anchor: str = "start") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' fill='{colour}' text-anchor='{anchor}'>"
        f"{escape(words)}</text>"
    )


def page(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    arrow = (
        "<defs><marker id='arrow' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' "
        f"orient='auto-start-reverse'><path d='M0 0L10 5L0 10z' fill='{INK}'/></marker></defs>"
    )
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"role='img'>\n<title>{escape(title)}</title>\n{arrow}\n"
        f"<rect width='{width}' height='{height}' rx='8' fill='{PAPER}'/>\n{body}\n</svg>\n"
    )


# --- states -----------------------------------------------------------------------------------------------------------


def states_svg() -> str:
    parts = []
    for target, sources in VALID_PREVIOUS_STATES.items():
        parts += [_edge(source, target) for source in sorted(sources)]
    for state, (x, y) in PLACES.items():
        parts.append(
            f"<rect x='{x}' y='{y}' width='{BOX_WIDTH}' height='{BOX_HEIGHT}' rx='8' fill='{FILLS[state.kafka_name]}' "
            f"stroke='{INK}'/>"
        )
        parts.append(text(x + BOX_WIDTH / 2, y + 27, state.kafka_name, 15, anchor="middle"))
    parts.append(
        text(40, 30, "Solid: the life of a transaction. Dashed: fences, epoch bumps, the next one, expiry.", 13)
    )
    return page(1050, 600, "The states of a transactional id and every legal step between them", parts)


def _edge(source: TransactionState, target: TransactionState) -> str:
    name = f"<title>{source.kafka_name} to {target.kafka_name}</title>"
    style = f"fill='none' stroke='{INK if (source, target) in SOLID else LINE}' stroke-width='1.6' "
    if (source, target) not in SOLID:
        style += "stroke-dasharray='5 4' "
    x, y = PLACES[source]
    if source is target:
        path = f"M{x + 50} {y}C{x + 40} {y - 40} {x + 110} {y - 40} {x + 100} {y - 2}"
        return f"<path d='{path}' {style}marker-end='url(#arrow)'>{name}</path>"
    (x1, y1), (x2, y2) = _border(source, target), _border(target, source)
    # To its right, so that an edge and the one back are two.
    length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    bend = min(40.0, length / 8)
    xm, ym = (x1 + x2) / 2 - (y2 - y1) / length * bend, (y1 + y2) / 2 + (x2 - x1) / length * bend
    path = f"M{x1:.0f} {y1:.0f}Q{xm:.0f} {ym:.0f} {x2:.0f} {y2:.0f}"
    return f"<path d='{path}' {style}marker-end='url(#arrow)'>{name}</path>"


def _border(of: TransactionState, towards: TransactionState) -> tuple[float, float]:
    """Where the straight line between two boxes leaves the first."""
    (x, y), (other_x, other_y) = PLACES[of], PLACES[towards]
    centre_x, centre_y = x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2
    dx, dy = other_x - x, other_y - y
    scale = min(BOX_WIDTH / 2 / abs(dx) if dx else 1e9, BOX_HEIGHT / 2 / abs(dy) if dy else 1e9)
    return centre_x + dx * scale, centre_y + dy * scale


# --- timeline ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: float
    lane: str
    words: str
    fill: str


_BETWEEN_S = 0.3
"""So that the markers of one transaction come before the next one begins."""
TOPICS = ("payments", "orders")
LANES = ("producer", "coordinator", "payments-0", "orders-0")
_TOP, _LANE_HEIGHT, _LEFT, _COLUMN = 90, 76, 140, 124


def timeline_svg(runs: Sequence[Sequence[Event]]) -> str:
    """In order, one column per event: at a scale of milliseconds they would overlap."""
    run_height = len(LANES) * _LANE_HEIGHT + 30
    width = _LEFT + max(map(len, runs)) * _COLUMN + 30
    parts = [text(30, 34, "A committed transaction, then an aborted one, as a running broker logged them", 18)]
    below = (
        "Columns are in order, not to scale; the number is the time since the transaction began, in ms. "
        "Within one millisecond the order is the protocol's."
    )
    parts.append(text(30, 56, below, 13, GREY))
    for index, events in enumerate(runs):
        parts += _run(events, _TOP + index * run_height, width)
    return page(width, _TOP + len(runs) * run_height, "Timeline of two transactions", parts)


def _run(events: Sequence[Event], top: int, width: int) -> list[str]:
    parts = []
    for lane in LANES:
        y = _lane_y(lane, top)
        parts.append(text(30, y + 5, lane, 14))
        parts.append(f"<line x1='{_LEFT - 10}' y1='{y}' x2='{width - 20}' y2='{y}' stroke='{LINE}'/>")
    for column, event in enumerate(events):
        x, y = _LEFT + column * _COLUMN, _lane_y(event.lane, top)
        parts.append(
            f"<rect x='{x}' y='{y - 19}' width='{_COLUMN - 8}' height='38' rx='6' fill='{event.fill}' stroke='{INK}'/>"
        )
        parts.append(text(x + (_COLUMN - 8) / 2, y + 4, event.words, 11, anchor="middle"))
        parts.append(
            text(x + (_COLUMN - 8) / 2, y + 35, str(int(event.at_ms) - int(events[0].at_ms)), 11, GREY, "middle")
        )
    return parts


def _lane_y(lane: str, top: int) -> int:
    return top + LANES.index(lane) * _LANE_HEIGHT + 30


async def _written(bootstrap: str) -> list[Event]:
    """The contents of the partitions, by the timestamps of the producer and the coordinator."""
    from oncelog.client.consuming.consumer import Consumer

    written: list[Event] = []
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        for topic in TOPICS:
            (partition,) = await consumer.partitions_for(topic)
            end = (await consumer.end_offsets([partition]))[partition]
            async for batch in consumer.raw_batches(partition):
                header, marker = batch.header, batch.control_type
                words = "a record" if marker is None else f"{marker.name} marker"
                fill = FILLS["Ongoing"] if marker is None else FILLS[f"Complete{marker.name.capitalize()}"]
                written.append(Event(header.max_timestamp, f"{topic}-0", words, fill))
                if header.next_offset >= end:
                    break
    return written


async def recorded(bootstrap: str) -> list[Event]:
    """The producer's requests, what its coordinator logged, what was written to the partitions: each with its own
    time."""
    from oncelog.client.admin.client import Admin, NewTopic
    from oncelog.client.producing.producer import Producer
    from oncelog.tools.txn.tail import transitions

    asked: list[Event] = []

    def ask(words: str) -> None:
        asked.append(Event(time.time() * 1000, "producer", words, "#ffffff"))

    # The time of a record is that of its append, as it is with markers.
    append_time = {"message.timestamp.type": "LogAppendTime"}
    async with Admin(bootstrap) as admin:
        for topic in TOPICS:
            await admin.create_topics(NewTopic(topic, 1, 1, append_time))
    async with Producer(bootstrap_servers=bootstrap, transactional_id="shop") as producer:
        for committed in (True, False):
            ask("begin")
            async with producer.transaction() as transaction:
                for topic in TOPICS:
                    await transaction.send(topic, b"a record", partition=0)
                ask("commit" if committed else "abort")
                await (transaction.commit() if committed else transaction.abort())
            ask("answered")
            await asyncio.sleep(_BETWEEN_S)
    logged = []
    async for each in transitions(bootstrap, from_beginning=True, timeout_ms=10_000):
        logged.append(Event(each.time_ms, "coordinator", each.state, FILLS[each.state]))
        if each.state == "CompleteAbort":
            break
    written = await _written(bootstrap)
    return sorted([*asked, *logged, *written], key=_order)


_STEPS = ("begin", "Empty", "Ongoing", "a record", "commit", "abort", "Prepare", "marker", "Complete", "answered")


def _order(event: Event) -> tuple[int, int]:
    """Within one millisecond the order is the protocol's."""
    return int(event.at_ms), next(at for at, step in enumerate(_STEPS) if step in event.words)


def main() -> None:
    from tests.support.processes.daemon import Daemon

    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(Path(directory) / "data")
        try:
            events = asyncio.run(recorded(daemon.bootstrap))
        finally:
            daemon.stop()
    second = [event.words for event in events].index("begin", 1)
    drawn = timeline_svg((events[:second], events[second:]))
    (IMAGES / "transaction_timeline.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
