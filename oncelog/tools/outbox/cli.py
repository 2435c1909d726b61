"""`oncelog outbox`: install, run, watch and remove a relay from PostgreSQL to Kafka.

Owns: the options, what is shown, the exit codes. Does not own: the relay (`relaying`), the database's part (`sql`).
Exit codes: 0 done, or stopped with Ctrl-C or SIGTERM; 2 not.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.protocol.amounts import duration_ms
from oncelog.tools.asking import EXIT_FAILED, Answer, Session, Shown, asks, run_loop
from oncelog.tools.outbox.sql import DEFAULT_NAME, database_error
from oncelog.tools.terminal import fail, say, say_json

if TYPE_CHECKING:
    from oncelog.tools.outbox.feed import Feed
    from oncelog.tools.outbox.reporting import Reporter

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])
_RIGHTS = """
Rights. To install: CREATE on the database, and REPLICATION, or the provider's role for it (not with --carrier poll).
For the relay: REPLICATION (not with --carrier poll), and
  grant usage on schema oncelog to RELAY;
  grant select, update on oncelog.relays to RELAY; grant select on oncelog.secret to RELAY;{table}
For an application (or --grant ROLE does it):
  grant usage on schema oncelog to ROLE;
  grant execute on all functions in schema oncelog to ROLE;"""
_TABLE_RIGHTS = "\n  grant select, update, delete on oncelog.outbox to RELAY;"


@click.group()
def outbox() -> None:
    """Carry events of SQL transactions from PostgreSQL to Kafka, each exactly once."""


def _keep(_context: click.Context, _parameter: click.Parameter, text: str) -> float | None:
    if text == "forever":
        return None
    if text.isdecimal():
        return float(text)
    try:
        return duration_ms(text) / 1_000
    except ValueError as error:
        raise click.BadParameter(f"{error}, or forever") from error


def _refuse_to(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if kind not in ("topic", "table") or not name or (kind == "table" and name.count(".") > 1):
        raise click.BadParameter(f"{text!r}: write topic:NAME, or table:NAME or table:SCHEMA.NAME")
    return kind, name


def _dsn(command: Command) -> Command:
    return click.argument("dsn", default="", envvar="ONCELOG_OUTBOX_DSN")(command)


def _name(command: Command) -> Command:
    return click.option(
        "--name",
        default=DEFAULT_NAME,
        show_default=True,
        callback=_checked_name,
        help="The relay's, its slot's and its position's: one for each database and target.",
    )(command)


def _checked_name(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if not re.fullmatch(r"[a-z0-9_]{1,63}", text):
        raise click.BadParameter(f"{text!r}: the name of a slot has a-z, 0-9 and _, at most 63 of them")
    return text


@outbox.command()
@_dsn
@click.option(
    "--carrier",
    type=click.Choice(("wal", "table", "poll")),
    default="wal",
    show_default=True,
    help="Where events are: only in the write-ahead log, in a table that is read from the log, in one that is polled.",
)
@_name
@click.option("--grant", "grants", metavar="ROLE", multiple=True, help="Who may produce; may be repeated.")
@click.option("--replace-slot", is_flag=True, help="Make the slot again, from now on: what it had is lost.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def install(dsn: str, carrier: str, name: str, grants: tuple[str, ...], replace_slot: bool, as_json: bool) -> None:
    """Make the function oncelog.produce, and what the relay reads.

    In the database DSN: libpq's URI or settings, its environment variables and service files; ONCELOG_OUTBOX_DSN. It
    may be repeated.
    """

    async def work() -> list[str]:
        from oncelog.tools.outbox import sql

        connection = await sql.connect(dsn, name)
        async with connection:
            return await sql.install(connection, name, carrier, grants, replace_slot=replace_slot)  # type: ignore[arg-type]

    done = _attempt(work)
    if as_json:
        say_json({"name": name, "carrier": carrier, "done": done})
        return
    for each in done:
        say(f"There is now: {each}.")
    for line in _RIGHTS.format(table="" if carrier == "wal" else _TABLE_RIGHTS).splitlines():
        say(line)
    say()
    say("Next: oncelog outbox run DSN -b HOST:PORT, and in SQL: select oncelog.produce('topic', 'key', 'value')")


@asks(outbox, follows=True)
@_dsn
@_name
@click.option(
    "--refuse-to",
    "refuse_to",
    metavar="topic:NAME|table:NAME",
    callback=_refuse_to,
    help="Put events aside that the target does not take, with the reason.  [default: stop at the first]",
)
@click.option(
    "--keep",
    "keep_s",
    metavar="TIME",
    default="0",
    callback=_keep,
    help="How long rows of the table stay once Kafka has them: 0, 15m, 12h, 7d, forever.  [default: 0]",
)
@click.option("--go-on", is_flag=True, help="Continue where a stop asked for it; the message of the stop says how.")
@click.option("--metrics-listen", metavar="HOST:PORT", help="Serve /metrics for Prometheus, and /healthz, there.")
async def run(
    session: Session,
    dsn: str,
    name: str,
    refuse_to: tuple[str, str] | None,
    keep_s: float | None,
    go_on: bool,
    metrics_listen: str | None,
) -> Shown:
    """Relay what the database DSN publishes, until it is stopped.

    It waits for a database or a broker that is away, and continues where it was. It ends rather than leave something
    out, with a message that says what happened and which command continues.
    """
    from oncelog.tools.outbox import sql
    from oncelog.tools.outbox.position import OutboxError
    from oncelog.tools.outbox.refusals import Refusals
    from oncelog.tools.outbox.relaying import Relaying
    from oncelog.tools.outbox.reporting import Reporter
    from oncelog.tools.outbox.slot_feed import SlotFeed
    from oncelog.tools.outbox.table_feed import TableFeed
    from oncelog.tools.outbox.target import Target

    async def note(error: str | None) -> None:
        with suppress(database_error()):  # it may be what is away
            async with await sql.connect(dsn, name) as connection:
                await sql.note_error(connection, name, error)

    async with AsyncExitStack() as stack:
        reporter = Reporter(name, as_json=session.as_json)
        if metrics_listen is not None:
            await _serve(stack, reporter, metrics_listen)
        is_ours = False
        """Whether what is installed there may be written to: it was looked at."""
        try:
            relay = await _installed(dsn, name)
            is_ours = True

            def make_feed() -> "Feed":
                return (TableFeed if relay.carrier == "poll" else SlotFeed)(dsn, name, keep_s)

            kind, place = refuse_to or ("", "")
            refusals = Refusals(
                name,
                place if kind == "topic" else None,
                place if kind == "table" else None,
                dsn,
                relay.installation,
            )
            target = Target(session.bootstrap, name, session.security, session.timeout_ms)
            await note(None)
            await Relaying(make_feed, target, refusals, reporter, goes_on=go_on).run()
        except OutboxError as error:
            if is_ours:
                await note(str(error))
            fail(f"{error}.", EXIT_FAILED)
    return None


async def _installed(dsn: str, name: str) -> Any:
    from oncelog.tools.outbox import sql
    from oncelog.tools.outbox.feed import text_of
    from oncelog.tools.outbox.position import OutboxError

    try:
        async with await sql.connect(dsn, name) as connection:
            relay = await sql.find_relay(connection, name)
    except database_error() as error:
        raise OutboxError(f"the database: {text_of(error)}") from error
    if relay is None:
        raise OutboxError(f"no relay {name} is installed in this database: `oncelog outbox install DSN`")
    return relay


async def _serve(stack: AsyncExitStack, reporter: "Reporter", address: str) -> None:
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

    from oncelog.broker.admin.access import Access
    from oncelog.broker.admin.http import HttpServer
    from oncelog.broker.admin.messages import AdminRequest, HttpError, Response
    from oncelog.broker.config.admin_address import parse_http_address

    async def serve(request: AdminRequest) -> Response:
        match request.path:
            case ("metrics",):
                return Response(200, reporter.text(), CONTENT_TYPE_PLAIN_0_0_4)
            case ("healthz",):
                return Response(200, {"status": "alive"})
        raise HttpError(404, "no such path: there are /metrics and /healthz")

    try:
        parsed = parse_http_address(address)
        server = HttpServer(serve, Access("metrics", parsed), None)
        host, port = await server.start(parsed.host, parsed.port)
    except (ValueError, OSError) as error:
        fail(f"--metrics-listen {address}: {error}", EXIT_FAILED)
    stack.push_async_callback(server.close)
    say(f"Metrics: http://{host}:{port}/metrics")


@asks(outbox)
@_dsn
@_name
async def status(session: Session, dsn: str, name: str) -> Shown:
    """Show how far the relay of a database is.

    Its position, what is behind it, the log that is held, the last error. Where a broker keeps its records in the same
    database there is none: which rows wait for it, and which are refused.
    """
    from oncelog.tools.outbox.status import status_of

    return await _reported(status_of(session, dsn, name))


@asks(outbox, question=lambda name, **_: f"Remove the relay {name}, and its position on the target?")
@_dsn
@_name
@click.option("--force", is_flag=True, help="Also with events that are not relayed.")
async def remove(session: Session, dsn: str, name: str, force: bool) -> Shown:
    """Take away what `install` made, and the position on the target."""
    from oncelog.tools.outbox import sql
    from oncelog.tools.outbox.target import forget_position, read_position

    async def work() -> list[str]:
        position = await read_position(session.admin, session.bootstrap, name, session.security)
        async with await sql.connect(dsn, name) as connection:
            done = await sql.remove(connection, name, position, force=force)
        if await forget_position(session.admin, name):
            done.append("the position on the target")
        return done

    done = await _reported(work())
    return Answer({"removed": done}) if session.as_json else Answer([{"removed": each} for each in done])


def _attempt(work: Callable[[], Awaitable[T]]) -> T:
    async def reported() -> T:
        return await _reported(work())

    result: T = run_loop(reported())
    return result


async def _reported(work: Awaitable[T]) -> T:
    """Ends the command with a sentence for what the database refuses."""
    from oncelog.tools.outbox.feed import text_of
    from oncelog.tools.outbox.position import OutboxError

    try:
        return await work
    except OutboxError as error:
        fail(f"{error}.", EXIT_FAILED)
    except database_error() as error:
        fail(f"the database: {text_of(error)}", EXIT_FAILED)
