"""Commands that ask a cluster: one way to connect, to show what comes back, and to fail.

Owns: the options that all of them have, the one place where an error becomes a sentence and an exit code, the choice
between table and JSON. Does not own: which cluster (`profiles`), printing (`terminal`), what is asked: a command is an
async function of a `Session` and of its own options that returns rows, one row, or an `Answer`:

    @asks(topic, "list")
    @click.option("--internal", is_flag=True)
    async def list_(session: Session, internal: bool) -> Shown:
        return [{"topic": each} for each in await session.admin.list_topics(include_internal=internal)]

Exit codes: 0 done, 1 what an `Answer` says (something was found that should not be there), 2 failed, unknown names and
unusable options included, 130 interrupted, by Ctrl-C or SIGTERM. A broker that does not listen is known at once, before
anything is retried.
"""

import functools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.terminal import (
    Row,
    confirm,
    fail,
    fail_by,
    other_signals,
    say,
    say_json,
    say_pairs,
    say_table,
    yes_option,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog.client.admin.client import Admin
    from oncelog.client.options.option_types import SecurityOptions
    from oncelog.client.values.errors import KafkaError
    from oncelog.tools.profiles import Target


COUNT = click.IntRange(1, 2**31 - 1)
NUMBER = click.IntRange(0, 2**31 - 1)
LONG_NUMBER = click.IntRange(0, 2**63 - 1)
"""The largest number in the protocol, for offsets and producer ids; `NUMBER` is for partitions and nodes."""
EXIT_FOUND = 1
EXIT_FAILED = 2
EXIT_INTERRUPTED = 130
_TIMEOUT_S = 10
_LEAST_S = 0.001
_SPARE_S = 0.25


class NotFound(Exception):
    """Raised if what was named does not exist, or cannot; the message says what to do next."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: `nothing` is said instead of an empty table, `hint` below a full one; neither in JSON.
    `ends_in_prose`: the last column has sentences; `gives_way`: the columns that a narrow terminal shortens first. With
    a `failure`, which is said on standard error, the value is what was done before. `in_table`: a row as people read
    it, where the names of its columns do not say what their numbers are."""

    value: list[Row] | Row
    nothing: str = "Nothing matches."
    hint: str = ""
    exit_code: int = 0
    ends_in_prose: bool = False
    gives_way: tuple[str, ...] = ()
    failure: str = ""
    in_table: Callable[[Row], Row] = dict


Shown = list[Row] | Row | Answer | None


@dataclass(frozen=True, slots=True)
class Session:
    """An open Admin for a command, and what it needs to open clients of its own."""

    admin: "Admin"
    bootstrap: str
    timeout_ms: float
    as_json: bool
    security: "SecurityOptions"


_Function = Callable[..., Any]
_COMMON = frozenset(("yes", "bootstrap", "profile", "command_config", "timeout_s", "as_json"))


def timeout_option(_context: click.Context, _parameter: click.Parameter, seconds: float | None) -> float | None:
    """Check the value of `--timeout`, as a click callback. Raises BadParameter."""
    from oncelog.tools.profiles import MAX_TIMEOUT_S

    if seconds is not None and not 0 < seconds <= MAX_TIMEOUT_S:  # neither is NaN
        raise click.BadParameter(f"{seconds} is not a number of seconds above 0 and up to {MAX_TIMEOUT_S}, a day")
    return seconds


class _Bootstrap(click.Option):
    """Kafka's name for it is accepted, and not shown in --help, whose column of names it would make twice as wide."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (record[0].replace(", --bootstrap-server", ""), record[1])


def bootstrap_option(**settings: Any) -> Callable[[_Function], _Function]:
    """Add -b/--bootstrap/--bootstrap-server to a command."""
    names = ("-b", "--bootstrap", "--bootstrap-server")
    return click.option(*names, cls=_Bootstrap, metavar="HOST:PORT", **settings)


def cluster_options(function: _Function, default_timeout_s: int = _TIMEOUT_S) -> _Function:
    """Add -b/--bootstrap, --profile, --command-config and --timeout to a command."""
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            metavar="SECONDS",
            type=float,
            callback=timeout_option,
            help=f"How long to wait for the cluster.  [default: {default_timeout_s}]",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            help="Settings of Kafka's clients: security.protocol, sasl.*, ssl.* (ONCELOG_COMMAND_CONFIG).",
        ),
        click.option("--profile", metavar="NAME", help="A cluster of the configuration file (ONCELOG_PROFILE)."),
        bootstrap_option(help="Any broker of the cluster (ONCELOG_BOOTSTRAP).  [default: 127.0.0.1:9092]"),
    ):
        function = option(function)
    return function


def connection_options(function: _Function, default_timeout_s: int = _TIMEOUT_S) -> _Function:
    """Add -b/--bootstrap, --profile, --command-config, --timeout and --json to a command."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
    return cluster_options(as_json(function), default_timeout_s)


def asks(
    group: click.Group,
    name: str | None = None,
    *,
    follows: bool = False,
    streams: bool = False,
    question: Callable[..., str] | None = None,
) -> Callable[[Callable[..., Awaitable[Shown]]], click.Command]:
    """Makes a command of `group` from an async function; Ctrl-C is the proper end of one that `follows`. --timeout
    limits it as a whole; one that follows or `streams` has as much to do as there are records, so it limits each wait
    for the cluster itself. One with a `question`, which is made of its options, destroys something: it asks on a
    terminal, and has --yes."""

    def decorate(function: Callable[..., Awaitable[Shown]]) -> click.Command:
        @functools.wraps(function)
        def command(
            bootstrap: str | None,
            profile: str | None,
            command_config: str | None,
            timeout_s: float | None,
            as_json: bool,
            yes: bool = False,
            **options: Any,
        ) -> None:
            if question is not None and not options.get("dry_run"):
                confirm(question(**options), yes=yes)
            begun_s = time.monotonic()
            chosen = reach(bootstrap, profile, timeout_s, command_config)
            left_s = None if follows or streams else chosen.timeout_s - (time.monotonic() - begun_s)
            show(run(chosen, as_json, follows, lambda session: function(session, **options), left_s), as_json)

        decorated = command if question is None else yes_option(command)
        made = group.command(name or function.__name__)(connection_options(decorated))
        made.params.sort(key=lambda parameter: parameter.name in _COMMON)  # what is its own comes first in --help
        return made

    return decorate


def reach(
    bootstrap: str | None, profile: str | None, timeout_s: float | None, command_config: str | None = None
) -> "Target":
    """Return the chosen cluster, one of whose brokers responds. Ends the command with a sentence if none does."""
    chosen = choose(bootstrap, profile, timeout_s, command_config)
    probe(chosen, EXIT_FAILED)
    return chosen


def choose(
    bootstrap: str | None, profile: str | None, timeout_s: float | None, command_config: str | None = None
) -> "Target":
    import os

    from oncelog.tools.profiles import ProfileError, target

    try:
        return target(bootstrap, profile, timeout_s, os.environ, command_config)
    except ProfileError as error:
        fail(str(error), EXIT_FAILED)


def probe(chosen: "Target", exit_code: int) -> int:
    """Return the number of APIs that the first broker to respond has."""
    from oncelog.health import NotABroker, NotHealthy, check_health

    context = tls_context_of(chosen) if chosen.security else None
    problems: list[NotHealthy] = []
    end_s = time.monotonic() + chosen.timeout_s
    for number, (host, port) in enumerate(chosen.addresses):
        share_s = (end_s - time.monotonic()) / (len(chosen.addresses) - number)
        try:
            return check_health(host, port, max(_LEAST_S, share_s), context)
        except NotHealthy as error:
            problems.append(error)
    left_s = end_s - time.monotonic()
    if left_s > 0 and any(isinstance(each, NotABroker) for each in problems):
        attempt(lambda: _check_listeners(chosen, left_s), chosen)
    step = "start a broker with `oncelog serve`, or name another with --bootstrap HOST:PORT"
    fail(f"{'; '.join(map(str, problems))}; {step}", exit_code)


def tls_context_of(chosen: "Target") -> "SSLContext | None":
    """Ends the command if its settings are unusable, in the names that were typed."""
    from oncelog.client.values.errors import ConfigError
    from oncelog.tools.client_properties import tls_context

    try:
        return tls_context(chosen.security)
    except ConfigError as error:
        fail(chosen.respelled(str(error)), EXIT_FAILED)


def _check_listeners(chosen: "Target", timeout_s: float) -> None:
    """Raises ConfigError with what a listener speaks, if the command's options differ."""
    import asyncio

    from oncelog.client.admin.settings import AdminSettings
    from oncelog.client.values.waiting import Deadline
    from oncelog.client.wire.listeners import check_listener
    from oncelog.client.wire.security import security_of

    async def check() -> None:
        security = security_of(AdminSettings(**chosen.security))
        for host, port in chosen.addresses:
            await check_listener(f"{host}:{port}", security, Deadline.after(timeout_s * 1000))

    asyncio.run(check())


def run(
    chosen: "Target",
    as_json: bool,
    follows: bool,
    work: Callable[[Session], Awaitable[Any]],
    most_s: float | None = None,
) -> Any:
    """Return what `work` returns with an open Admin; it may take `most_s`. Every expected error ends the command with
    one sentence."""
    from oncelog.client.admin.client import Admin

    timeout_ms = chosen.timeout_s * 1000

    async def call() -> Any:
        options = chosen.security
        async with (
            within(most_s, chosen),
            Admin(chosen.bootstrap, default_api_timeout_ms=timeout_ms, client_id="oncelog", **options) as admin,
        ):
            return await work(Session(admin, chosen.bootstrap, timeout_ms, as_json, options))

    return attempt(lambda: run_loop(call(), follows=follows), chosen, follows)


@asynccontextmanager
async def within(most_s: float | None, chosen: "Target") -> AsyncIterator[None]:
    """Raises RequestTimedOut for what takes longer. A call that has met an error until then has said so before."""
    import asyncio

    from oncelog.client.values.errors import RequestTimedOut

    # The calls end by themselves at the same moment, and know what they have waited for.
    later_s = None if most_s is None else max(_LEAST_S, most_s) + _SPARE_S
    try:
        async with asyncio.timeout(later_s) as timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise RequestTimedOut(f"{chosen.bootstrap} took longer than {chosen.timeout_s:g} s") from error


def run_loop(work: Awaitable[Any], *, follows: bool = False) -> Any:
    """Run by asyncio.run, which SIGTERM ends as Ctrl-C does: the work is cancelled, so that a transaction is aborted
    and a member leaves. What `follows` ends so, too, when the reader of its pipe has gone: there may never be a line to
    find that out by. A signal of `other_signals` ends the work so, and the command with a line. Raises
    KeyboardInterrupt."""
    import asyncio
    import signal
    from contextlib import suppress

    ended_by: list[signal.Signals] = []

    async def call() -> Any:
        mine: Any = asyncio.current_task()

        def end(number: signal.Signals) -> None:
            ended_by.append(number)
            mine.cancel()

        with suppress(NotImplementedError, RuntimeError):  # on Windows, and beside the main thread
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, mine.cancel)
            for number in other_signals():
                loop.add_signal_handler(number, end, number)
        if follows:
            _when_pipe_breaks(mine.cancel)
        return await work

    try:
        found = asyncio.run(call())
    except asyncio.CancelledError:
        if not ended_by:
            raise KeyboardInterrupt from None
    if ended_by:
        fail_by(ended_by[0])
    return found


_BROKEN_PIPE_S = 1.0
"""Work that writes finds it out by itself, and has ended by then: to cancel it would keep a member from leaving."""


def _when_pipe_breaks(call: Callable[[], object]) -> None:
    """Call it once the reader of standard output is gone, if that is a pipe: selectors report its end as readable."""
    import asyncio
    import os
    import stat

    try:
        descriptor = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):  # it is no file at all
        return
    if not is_pipe:
        return
    loop = asyncio.get_running_loop()

    def broken() -> None:
        loop.remove_reader(descriptor)
        loop.call_later(_BROKEN_PIPE_S, call)

    loop.add_reader(descriptor, broken)


_HINTS = {
    "ConnectionLost": "`oncelog doctor` looks for the reason",
    "RequestTimedOut": "`oncelog doctor` looks for the reason; --timeout waits longer",
    "GROUP_ID_NOT_FOUND": "`oncelog group list` shows those there are",
    "MESSAGE_TOO_LARGE": "`oncelog config alter --topic TOPIC --set max.message.bytes=BYTES` allows more",
    "INVALID_TRANSACTION_TIMEOUT": "--leave-open and 30 s more must fit into transaction.max.timeout.ms of the brokers",
    "TRANSACTIONAL_ID_NOT_FOUND": "`oncelog txn list` shows those there are",
}
"""The hints by error name, for errors about which the client cannot say more."""


def sentence_of(error: "KafkaError") -> str:
    """Return the sentence for an error: the client's hint, or the command's own."""
    return f"{error.message.removesuffix('.')}; {_HINTS[error.name]}" if error.name in _HINTS else str(error)


def attempt(work: Callable[[], Any], chosen: "Target", follows: bool = False) -> Any:
    from oncelog.client.values.errors import KafkaError
    from oncelog.protocol.errors import ProtocolError

    try:
        return work()
    except KafkaError as error:
        fail(sentence_of(error), EXIT_FAILED)
    except (ProtocolError, NotFound) as error:
        fail(str(error), EXIT_FAILED)
    except UnicodeEncodeError as error:
        fail(f"{error.object} is not valid UTF-8, as names must be", EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(0 if follows else EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        message = f"{chosen.bootstrap} does not respond: {error}; `oncelog doctor` looks for the reason"
        fail(message, EXIT_FAILED)


def show(shown: Shown, as_json: bool) -> None:
    """Print, and exit with the answer's code if it is not 0."""
    if shown is None:
        return
    answer = shown if isinstance(shown, Answer) else Answer(shown)
    if as_json:
        say_json(answer.value)
    elif not answer.value:
        if answer.nothing:
            say(answer.nothing)
    elif isinstance(answer.value, dict):
        say_pairs(answer.value, gives_way=answer.gives_way)
    else:
        rows = list(map(answer.in_table, answer.value))
        say_table(rows, ends_in_prose=answer.ends_in_prose, gives_way=answer.gives_way)
    if answer.hint and answer.value and not as_json:
        say()
        say(answer.hint)
    if answer.failure:
        fail(answer.failure, EXIT_FAILED)
    if answer.exit_code:
        sys.exit(answer.exit_code)


def planned(rows: list[Row], dry_run: bool, in_table: Callable[[Row], Row] = dict) -> Answer:
    """Return the answer of a command that changed these rows, or would change them."""
    return Answer(rows, hint="Nothing was changed: --dry-run." if dry_run else "", in_table=in_table)


def with_setting_text(row: Row) -> Row:
    """Return the row of a setting or a quota with its value as people write it."""
    from oncelog.protocol.amounts import setting_text

    name, value = row.get("name") or row["quota"], row["value"]
    return row if value is None else {**row, "value": setting_text(name, str(value))}


def not_empty(text: str) -> str:
    """Check names of topics, groups and transactional ids, as a click type: a variable that is unset is no name, and
    brokers have no words for it. Raises BadParameter."""
    if not text:
        raise click.BadParameter("it is empty")
    return text


def pairs(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE of a repeated option, as a click callback."""
    return dict(map(_pair, texts))


def settings(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Do as `pairs` for settings: `7d` and `1GiB` become the numbers that Kafka stores."""
    from oncelog.protocol.amounts import setting_value

    given = pairs(context, parameter, texts)
    try:
        return {name: setting_value(name, text) for name, text in given.items()}
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def pair_list(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Do as `pairs` where a name may repeat."""
    return tuple(map(_pair, texts))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def principal_of(name: str) -> str:
    """Return User:NAME for a NAME alone."""
    return name if ":" in name else f"User:{name}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that does not exist."""
    from oncelog.protocol.names import nearest

    close = nearest(name, known, 3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


async def require_broker(admin: "Admin", broker_id: int) -> None:
    """Raises NotFound."""
    nodes = (await admin.describe_cluster()).nodes
    if broker_id not in nodes:
        raise NotFound(f"there is no broker with id {broker_id}; known ids: {', '.join(map(str, sorted(nodes)))}")
