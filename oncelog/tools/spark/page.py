"""The report as one HTML page: no script, no other file.

Owns: the words and the drawing. Does not own: the numbers (`report`). Invariant: text of topics, ids and markers is
shown, never interpreted; what is not known says "not recorded".
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from oncelog.pipeline.source.planning import OffsetRange
from oncelog.protocol.printable import printable
from oncelog.tools.spark.attempts import Attempt
from oncelog.tools.spark.report import Batch, Report

_UNKNOWN = "<em>not recorded</em>"
_BLUE, _GREEN, _RED, _GREY = "#3b7dd8", "#2f9e6e", "#d64545", "#9aa5b1"
_LEFT, _WIDTH, _ROW = 70, 860, 22
_MOST_DRAWN = 200
_LONG = 4
"""How many medians make a batch too long for the scale. The first one is, while Spark loads everything."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #fbfbf9; margin: 2rem auto;
       max-width: 1340px; padding: 0 1rem }
.wide { overflow-x: auto; font-size: .85em } .wide th, .wide td { padding: .3rem .4rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e4e7eb }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } em { color: #7b8794 } .bad { color: #d64545 }
.good { color: #2f9e6e } .r { white-space: nowrap }
code { font-size: .92em } svg text { font: 12px system-ui, sans-serif; fill: #1f2933 }
svg text.cut { fill: #fff; font-weight: 600 }
"""


def page(report: Report) -> str:
    state = report.state
    title = report.name or f"Query {state.query_id}"
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        f"<p>Query <code>{_text(state.query_id)}</code>, checkpoint <code>{_text(report.checkpoint)}</code>, "
        f"sink <code>{_text(state.sink_id)}</code> at <code>{_text(report.bootstrap)}</code>, "
        f"{_time(report.made_ms)}.<br>",
        f"Next start: <span class='{'good' if state.is_consistent else 'bad'}'>{_text(state.next_start)}</span></p>",
        *_waiting(report),
        *_readers(report),
        *_sinks(report),
        *_drawing(report.batches[-_MOST_DRAWN:]),
        *_batches(report.batches),
        *_notes(),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _waiting(report: Report) -> Iterator[str]:
    """Show what lag does not count: it ends at the last stable offset."""
    waiting = report.state.waiting
    if waiting is None or waiting:
        yield "<h2>Waiting behind open transactions, when this page was made</h2>"
    if waiting is None:
        yield f"<p>{_UNKNOWN}</p>"
    for each in waiting or ():
        yield f"<p class='bad'>{_text(str(each))}</p>"


def _readers(report: Report) -> Iterator[str]:
    source, written = report.source(), report.written()
    yield "<h2>What each isolation level shows</h2>"
    yield _head("", "read_committed", "read_uncommitted", "the difference")
    if source is None:
        yield _row("source: records in the ranges of these batches", None, None, None)
    else:
        more = source.aborted + source.open
        yield _row(
            "source: records in the ranges of these batches",
            source.committed,
            source.committed + more,
            f"{source.aborted:,} aborted" + (f", {source.open:,} open" if source.open else ""),
        )
    if written is None:
        yield _row("output: records in topics", None, None, None)
    else:
        published, vain, _ = written
        yield _row("output: records in topics", published, published + vain, f"{vain:,} of attempts that failed")
    yield "</table>"


def _sinks(report: Report) -> Iterator[str]:
    written = report.written()
    published, doubled = (None, None) if written is None else (written[0], written[2])
    yield "<h2>What each sink would have left in the output</h2>"
    yield _head("sink", "records", "of these twice", "")
    yield _row("this one: a transaction and a marker for each batch", published, None if written is None else 0, "")
    everything = None if published is None or doubled is None else published + doubled
    yield _row(
        "one without them, such as Spark's Kafka sink or a plain foreachBatch",
        everything,
        doubled,
        "had it ended where this one ended: what failed attempts wrote, and each batch that was run again",
    )
    yield "</table>"


def _drawing(batches: Sequence[Batch]) -> Iterator[str]:
    """Draw each batch from its planning to Spark's own commit."""
    drawn = [each for each in batches if each.planned_ms is not None]
    scale_ms = _scale_ms([_end_ms(each) - (each.planned_ms or 0) for each in drawn])
    if scale_ms <= 0:
        return
    scale = _WIDTH / scale_ms
    height = len(drawn) * _ROW + 40
    yield "<h2>From planning to done</h2>"
    yield f"<svg viewBox='0 0 {_LEFT + _WIDTH + 20} {height}' width='100%' role='img'>"
    yield "<title>Each batch: until it was committed in the broker, then until Spark noted it as done</title>"
    for index, batch in enumerate(drawn):
        y = index * _ROW + 4
        yield f"<text x='{_LEFT - 10}' y='{y + 12}' text-anchor='end'>{batch.batch_id}</text>"
        committed_ms = batch.published.ended_ms if batch.published is not None else None
        yield _bar(batch, batch.done_ms, y, scale, _GREY, "done")
        yield _bar(batch, committed_ms, y, scale, _BLUE, "committed")
        for attempts, colour, what in ((batch.failed, _RED, "failed"), (batch.skipped, _GREEN, "skipped")):
            for attempt in attempts:
                yield _tick(batch, attempt, y, scale, colour, what)
        took_ms = _end_ms(batch) - (batch.planned_ms or 0)
        if took_ms > scale_ms:
            end = _LEFT + _WIDTH
            yield f"<text x='{end - 6}' y='{y + 12}' text-anchor='end' class='cut'>{took_ms / 1000:.1f} s ▸</text>"
    yield f"<text x='{_LEFT}' y='{height - 10}'>0 s</text>"
    yield f"<text x='{_LEFT + _WIDTH}' y='{height - 10}' text-anchor='end'>{scale_ms / 1000:.1f} s</text>"
    yield "</svg>"
    legend = (
        (_BLUE, "until committed"),
        (_GREY, "until done"),
        (_RED, "a failed attempt"),
        (_GREEN, "a skipped replay"),
    )
    yield "<p>" + " &nbsp; ".join(f"<span style='color:{colour}'>■</span> {what}" for colour, what in legend) + "</p>"


def _scale_ms(lengths_ms: Sequence[int]) -> int:
    """Return the length of the axis: the longest batch's, but for those that are far longer than most, which are cut
    off and say how long they were."""
    if not lengths_ms:
        return 0
    most_ms = _LONG * sorted(lengths_ms)[len(lengths_ms) // 2]
    return max((each for each in lengths_ms if each <= most_ms), default=0) or max(lengths_ms)


def _end_ms(batch: Batch) -> int:
    ends = [batch.done_ms, batch.published.ended_ms if batch.published is not None else None]
    return max([batch.planned_ms or 0, *(each for each in ends if each is not None)])


def _bar(batch: Batch, end_ms: int | None, y: float, scale: float, colour: str, what: str) -> str:
    took_ms = max(0, end_ms - batch.planned_ms) if end_ms is not None and batch.planned_ms is not None else 0
    return (
        f"<rect x='{_LEFT}' y='{y}' width='{min(took_ms * scale, _WIDTH):.1f}' height='{_ROW - 6}' fill='{colour}'>"
        f"<title>batch {batch.batch_id}: {what} after {took_ms / 1000:.2f} s</title></rect>"
    )


def _tick(batch: Batch, attempt: Attempt, y: float, scale: float, colour: str, what: str) -> str:
    at_ms = attempt.fenced_ms if attempt.fenced_ms is not None else attempt.ended_ms
    if at_ms is None or batch.planned_ms is None:
        return ""
    x = _LEFT + min(max(0.0, (at_ms - batch.planned_ms) * scale), _WIDTH)
    return (
        f"<rect x='{x - 2:.1f}' y='{y - 2}' width='4' height='{_ROW - 2}' fill='{colour}'>"
        f"<title>{what}: {_text(_attempt(attempt))}</title></rect>"
    )


_COLUMNS = (
    "batch",
    "planned",
    "source offsets",
    "source records",
    "aborted, skipped",
    "lag",
    "published",
    "attempts that failed",
    "replays skipped",
    "twice without transactions",
    "seconds of publishing",
    "done",
)


def _batches(batches: Sequence[Batch]) -> Iterator[str]:
    yield f"<h2>{len(batches):,} micro-batches</h2><div class='wide'>"
    yield _head(*_COLUMNS)
    for each in batches:
        yield _row(
            f"{each.batch_id}",
            _Html(_time(each.planned_ms)),
            _Html(_UNKNOWN if each.ranges is None else "<br>".join(map(_range, each.ranges)) or "no new offsets"),
            None if each.counts is None else each.counts.committed,
            None if each.counts is None else each.counts.aborted,
            each.lag,
            _Html(_published(each)),
            _Html(_attempts(each, each.failed)),
            _Html(_attempts(each, each.skipped)),
            each.doubled,
            _Html(_seconds(each)),
            _Html(_time(each.done_ms)),
        )
    yield "</table></div>"


def _published(batch: Batch) -> str:
    if batch.published is None:
        return "not published" if batch.done_ms is None else _UNKNOWN
    marker = batch.published.marker
    outputs = {} if marker is None else marker.outputs
    records = ", ".join(f"{_text(name)}: {count:,}" for name, count in sorted(outputs.items())) or "no records"
    published = batch.published
    return f"{records}<br>epoch {published.producer_epoch}, {_text(_clock(published.ended_ms))}"


def _attempts(batch: Batch, attempts: Sequence[Attempt]) -> str:
    """Return the attempts; "none" only where none can be missing."""
    return "<br>".join(_text(_attempt(each)) for each in attempts) or ("none" if batch.is_complete else _UNKNOWN)


def _attempt(attempt: Attempt) -> str:
    written = None if attempt.records is None else sorted(attempt.records.items())
    records = "records not known" if written is None else ", ".join(f"{count:,} to {topic}" for topic, count in written)
    at = _clock(attempt.ended_ms if attempt.ended_ms is not None else attempt.fenced_ms)
    what = {"nothing": "wrote nothing"}.get(attempt.fate, f"{attempt.fate}: {records or 'no records'}")
    return f"epoch {attempt.producer_epoch}, {at}, {what}"


def _range(each: OffsetRange) -> str:
    return f"<span class='r'>{_text(each.topic)}-{each.partition}: {each.start:,} to {each.end - 1:,}</span>"


def _seconds(batch: Batch) -> str:
    if batch.seconds is None:
        return _UNKNOWN
    steps = ", ".join(f"{name} {seconds:.3f}" for name, seconds in batch.seconds.items())
    return f"<span title='{_text(steps)}'>{sum(batch.seconds.values()):.3f}</span>"


def _notes() -> Iterator[str]:
    yield "<h2>Where this comes from</h2><ul>"
    yield "<li>Offsets, planned and done: the files of the checkpoint. Spark keeps those of the newest batches.</li>"
    yield "<li>Published, failed and skipped: the log of the transaction coordinator, the topic of markers, and the"
    yield " output topics, while they keep it. Delta tables are not part of it.</li>"
    yield "<li>An attempt that wrote nothing and began before Spark noted the batch as done is a skipped replay; this"
    yield " compares the broker's clock with that of the checkpoint's file system.</li>"
    yield "<li>Lag and seconds: the notes on the driver's machine.</li></ul>"


class _Html(str):
    """A cell that is markup already."""


def _head(*names: str) -> str:
    return "<table><tr>" + "".join(f"<th>{_text(name)}</th>" for name in names) + "</tr>"


def _row(*cells: str | int | None) -> str:
    return "<tr>" + "".join(map(_cell, cells)) + "</tr>"


def _cell(value: str | int | None) -> str:
    if value is None:
        return f"<td>{_UNKNOWN}</td>"
    if isinstance(value, int):
        return f"<td class='n'>{value:,}</td>"
    return f"<td>{value if isinstance(value, _Html) else _text(value)}</td>"


def _text(text: str) -> str:
    return escape(printable(text))


def _time(at_ms: int | None) -> str:
    if at_ms is None:
        return _UNKNOWN
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def _clock(at_ms: int | None) -> str:
    return "time not recorded" if at_ms is None else _time(at_ms)[11:]
