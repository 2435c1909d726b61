"""`oncelog record`: produce, consume, delete.

Owns: the options, and which records are asked for. Does not own: reading (`consume`), sending (`produce`), formats
(`formats`), connecting and errors (`oncelog.tools.asking`).
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import NUMBER, Answer, Session, Shown, asks, not_empty, pair_list, planned, sentence_of
from oncelog.tools.names import GROUPS, TOPICS
from oncelog.tools.positions import (
    HELP,
    Position,
    duration_option,
    offsets_at,
    partitions_of,
    places_option,
    position_option,
)
from oncelog.tools.terminal import say, say_bytes, say_json

if TYPE_CHECKING:
    from oncelog.client.options.choices import OffsetReset
    from oncelog.tools.record.formats import Piece, ReadRecord
    from oncelog.tools.record.produce import Input, Tally

_ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_MAX_REQUEST_BYTES = 32 << 20
"""The largest request, as buffer_memory: the topic's max.message.bytes decides how large a record may be, which a
person can change."""
_LEAST_REQUEST_MS = 1_000
"""The least timeout of a request, half of which a Fetch is held."""
_WITHOUT_LETTERS, _WITH_LETTERS = "%s\\n", "%C\\t%s\\n"
_topic = click.argument("topic", metavar="TOPIC[:0,1]", callback=places_option, type=not_empty, shell_complete=TOPICS)


@click.group()
def record() -> None:
    """Produce, consume and delete records."""


def _format_option(_context: click.Context, _parameter: click.Parameter, text: str | None) -> "list[Piece] | None":
    from oncelog.tools.record.formats import parsed

    if text == "":
        raise click.BadParameter(r"it is empty: name what is printed, such as %k:%s\n")
    return None if text is None else parsed(text)


@asks(record, follows=True)
@_topic
@click.option(
    "-g",
    "--group",
    "group_id",
    metavar="GROUP",
    type=not_empty,
    shell_complete=GROUPS,
    help="As a member: continue at the group's offsets, and commit.",
)
@click.option(
    "-o",
    "--offset",
    "start",
    metavar="POSITION",
    callback=lambda context, parameter, text: None if text is None else position_option(context, parameter, text),
    help=f"{HELP} [default: end; start with --exit]",
)
@click.option("-e", "--exit", "exits", is_flag=True, help="Stop at what is the end now, instead of waiting for more.")
@click.option("-n", "--count", metavar="NUMBER", type=click.IntRange(1), help="Stop after so many records.")
@click.option(
    "-f",
    "--format",
    "pieces",
    metavar="FORMAT",
    callback=_format_option,
    help=r"As kcat's: %t %p %o %k %s %h %T %S %R %K %C, \n \t. [default: %s\n]",
)
@click.option("--isolation", type=click.Choice(_ISOLATION_LEVELS), help="[default: read_committed]")
@click.option(
    "--show-txn", is_flag=True, help="Also what is aborted and open: C committed, A aborted, O open, - no transaction."
)
@click.option("--show-control", is_flag=True, help="Also the markers that end transactions: M.")
async def consume(
    session: Session,
    topic: str,
    start: Position | None,
    exits: bool,
    count: int | None,
    pieces: "list[Piece] | None",
    isolation: str | None,
    show_txn: bool,
    show_control: bool,
    group_id: str | None,
) -> None:
    """Print the records of a topic; Ctrl-C stops it. With --json, one object per line.

    What --show-txn says of a transaction is true when it is printed: an open one may still end either way.

    A member of a --group commits what it has printed: a record may come again, and none is left out. --offset start or
    end is then for partitions that the group has not read.
    """
    from oncelog.client.consuming.consumer import Consumer
    from oncelog.tools.record.consume import grouped, plain, with_fates
    from oncelog.tools.record.formats import parsed

    if pieces is not None and session.as_json:
        raise click.UsageError("--json prints all of each record: leave out --format.")
    has_letters = show_txn or show_control
    pieces = pieces or parsed(_WITH_LETTERS if has_letters else _WITHOUT_LETTERS)
    committed = (isolation or ("read_uncommitted" if show_txn else "read_committed")) == "read_committed"
    # Without waiting, the end has no records: start at the beginning.
    start = start or Position("start" if exits else "end")
    if group_id is not None:
        _check_member(topic, start, has_letters)
    options: Any = {
        "bootstrap_servers": session.bootstrap,
        "isolation_level": "read_committed" if committed else "read_uncommitted",
        "default_api_timeout_ms": session.timeout_ms,
        "request_timeout_ms": max(session.timeout_ms, _LEAST_REQUEST_MS),
        "client_id": "oncelog",
        **session.security,
    }
    places = await partitions_of(session.admin, topic)
    if group_id is not None:
        reset: OffsetReset = "earliest" if start.kind == "start" else "latest"
        async with Consumer(topic, group_id=group_id, auto_offset_reset=reset, **options) as member:
            found = grouped(member, exits=exits, count=count, patience_ms=session.timeout_ms)
            await _print(found, pieces, session.as_json, None)
        return
    starts = await offsets_at(session.admin, places, start, options["isolation_level"])
    ends = await offsets_at(session.admin, places, Position("end"), options["isolation_level"]) if exits else None
    async with Consumer(auto_offset_reset="error", **options) as consumer:
        found = plain(consumer, starts, ends, session.timeout_ms)
        if has_letters:
            found = with_fates(consumer, starts, ends, markers=show_control, read_committed=committed)
        await _print(found, pieces, session.as_json, count)


def _check_member(topic: str, start: Position, has_letters: bool) -> None:
    """Raise UsageError for what a member of a group cannot do."""
    if ":" in topic:
        raise click.UsageError("--group assigns the partitions: name the topic alone.")
    if start.kind not in ("start", "end"):
        raise click.UsageError(
            "--group continues at the group's offsets: `oncelog group reset --to POSITION` moves them."
        )
    if has_letters:
        raise click.UsageError("--show-txn and --show-control read without a group: leave out --group.")


async def _print(
    found: "AsyncGenerator[ReadRecord, None]", pieces: "list[Piece]", as_json: bool, count: int | None
) -> None:
    from oncelog.tools.record.formats import as_row

    async with aclosing(found) as records:
        async for shown in records:
            if as_json:
                say_json(as_row(shown), indent=None)
            else:
                say_bytes([(each, False) if isinstance(each, bytes) else (each(shown), True) for each in pieces])
            count = None if count is None else count - 1
            if count == 0:
                break


def _delimiter_option(_context: click.Context, _parameter: click.Parameter, text: str | None) -> bytes | None:
    from oncelog.tools.record.formats import unescaped

    if text == "":
        raise click.BadParameter(r"it is empty: name what stands between key and value, such as : or \t")
    return None if text is None else unescaped(text)


@asks(record, streams=True)
@click.argument("topic", metavar="TOPIC", type=not_empty, shell_complete=TOPICS)
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("-k", "--key", metavar="KEY", help="The key of every record.")
@click.option(
    "-K",
    "--key-delimiter",
    "delimiter",
    metavar="TEXT",
    callback=_delimiter_option,
    help=r"Each value is KEY TEXT VALUE; \t is a tab.",
)
@click.option("-p", "--partition", metavar="NUMBER", type=NUMBER, help="Default: by the key, as Java's producer does.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, callback=pair_list)
@click.option("-z", "--compression", "codec", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option("--tombstone", is_flag=True, help="One record of --key without a value.")
@click.option(
    "--transactional-id", metavar="ID", type=not_empty, help="Send all records in one transaction, and commit it."
)
@click.option("--abort", is_flag=True, help="Abort the transaction.")
@click.option(
    "--leave-open",
    "open_ms",
    metavar="DURATION",
    callback=duration_option,
    help="Keep the transaction open so long, such as 30s, before it ends.",
)
async def produce(
    session: Session,
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    delimiter: bytes | None,
    partition: int | None,
    headers: tuple[tuple[str, str], ...],
    codec: str,
    tombstone: bool,
    transactional_id: str | None,
    abort: bool,
    open_ms: int,
) -> Shown:
    """Send each VALUE, or else each line of standard input.

    It shows where they are. The topic must exist. Ctrl-C and SIGTERM abort an open transaction.
    """
    from asyncio import CancelledError

    from oncelog.client.producing.producer import Producer
    from oncelog.tools.record.produce import Input, Tally, send, send_in_transaction

    if transactional_id is None and (abort or open_ms):
        raise click.UsageError(f"{'--abort' if abort else '--leave-open'} needs --transactional-id.")
    if tombstone and (key is None or values):
        raise click.UsageError("--tombstone needs --key, and takes no VALUE.")
    await partitions_of(session.admin, topic if partition is None else f"{topic}:{partition}")
    given = Input(
        topic,
        (None,) if tombstone else tuple(map(_bytes, values)),
        None if key is None else _bytes(key),
        delimiter,
        partition,
        tuple((name, _bytes(value)) for name, value in headers),
    )
    options: Any = {
        "compression_type": codec,
        "client_id": "oncelog",
        "max_block_ms": session.timeout_ms,
        "delivery_timeout_ms": session.timeout_ms,
        "max_request_size": _MAX_REQUEST_BYTES,
        **session.security,
    }
    tally = Tally()
    if transactional_id is None:
        async with Producer(session.bootstrap, **options) as producer:
            await send(producer, given, tally)
        return _shown(tally, given)
    on_open = partial(say, f"the transaction stays open for {open_ms / 1000:g} s", err=True)
    # The coordinator must not end it before we do.
    options["transaction_timeout_ms"] = max(60_000, open_ms + 30_000)
    try:
        async with Producer(session.bootstrap, transactional_id=transactional_id, **options) as producer:
            await send_in_transaction(producer, given, tally, abort=abort, leave_open_ms=open_ms, on_open=on_open)
    except CancelledError:
        if tally.outcome is not None:
            say(f"interrupted: the transaction is {tally.outcome}", err=True)
        raise
    return _shown(tally, given)


def _shown(tally: "Tally", given: "Input") -> Answer:
    """Return where the written records are, and which one was not written."""
    rows = tally.rows(given.topic)
    if not tally.failures:
        return Answer(rows, "Standard input is empty: no record was sent.")
    number = min(tally.failures)
    text = sentence_of(tally.failures[number])
    if tally.read_count > 1:
        written = f"written so far: {tally.written_count} of {tally.read_count} records"
        written = written if tally.outcome is None else "nothing is committed"
        text = f"{'VALUE' if given.values else 'line'} {number}: {text}; {written}"
    return Answer(rows, nothing="", failure=text)


def _bytes(text: str) -> bytes:
    """Return what was typed, to the byte."""
    return text.encode(errors="surrogateescape")


def _delete_question(topic: str, wanted: Position, **_: Any) -> str:
    which = "all records" if wanted.kind == "end" else "the records before that position"
    return f"Delete {which} of {printable_names([topic])}?"


@asks(record, question=_delete_question)
@_topic
@click.option("--before", "wanted", metavar="POSITION", required=True, callback=position_option, help=HELP)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and stop there.")
async def delete(session: Session, topic: str, wanted: Position, dry_run: bool) -> Shown:
    """Delete the records of a topic before a position.

    `--before end` deletes all.
    """
    places = await partitions_of(session.admin, topic)
    starts = await offsets_at(session.admin, places, Position("start"))
    new = await offsets_at(session.admin, places, wanted)
    if not dry_run:
        new = await session.admin.delete_records(new)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start_offset": starts[place],
            "new_start_offset": new[place],
        }
        for place in places
    ]
    return planned(rows, dry_run)
