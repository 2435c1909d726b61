"""`oncelog txn`: the transactions of a running cluster, for operators. Works with any Kafka from 3.0 on.

Owns: the options, what is printed, the exit codes. Does not own: the requests (`oncelog.tools.txn.operations`, imported
when a command runs).
Exit codes: 0 done, 1 hanging transactions were found, 2 failed.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.terminal import Row, fail, say, say_json, say_pairs, say_table
from oncelog.tools.txn.tail_cli import tail

if TYPE_CHECKING:
    from oncelog.client.admin import Admin

EXIT_FOUND = 1
EXIT_FAILED = 2
_TIMEOUT_MS = 10_000

_bootstrap = click.option("--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_topic = click.option("--topic", metavar="NAME", required=True)
_partition = click.option("--partition", metavar="NUMBER", type=click.IntRange(0), required=True)


@click.group()
def txn() -> None:
    """Inspect the transactions of a running broker, and end hanging ones."""


@txn.command(name="list")
@_bootstrap
@_as_json
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only ids in this state, such as Ongoing.")
@click.option("--producer-id", "producer_ids", metavar="ID", type=int, multiple=True, help="Only ids of this producer.")
@click.option(
    "--duration-filter", "duration_ms", metavar="MS", type=int, default=-1, help="Only transactions open for longer."
)
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match completely.")
def list_(
    bootstrap: str, as_json: bool, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int, pattern: str
) -> None:
    """Every transactional id, and its state."""
    from oncelog.tools.txn.operations import list_transactions

    rows = _ask(
        bootstrap,
        lambda admin: list_transactions(admin, states, producer_ids, duration_ms=duration_ms, pattern=pattern or None),
    )
    _show(rows, as_json, "No transactional id matches.")


@txn.command()
@_bootstrap
@_as_json
@click.argument("transactional_id", metavar="TRANSACTIONAL_ID")
def describe(bootstrap: str, as_json: bool, transactional_id: str) -> None:
    """One transactional id: its producer, its state, the partitions that it writes to."""
    from oncelog.tools.txn.operations import describe_transaction

    row = _ask(bootstrap, lambda admin: describe_transaction(admin, transactional_id, _now_ms()))
    if as_json:
        say_json(row)
    else:
        say_pairs(row)


@txn.command()
@_bootstrap
@_as_json
@_topic
@_partition
def producers(bootstrap: str, as_json: bool, topic: str, partition: int) -> None:
    """The producers that write to a partition, and their open transactions."""
    from oncelog.client.records import TopicPartition
    from oncelog.tools.txn.operations import producers as producers_of

    rows = _ask(bootstrap, lambda admin: producers_of(admin, TopicPartition(topic, partition)))
    _show(rows, as_json, "The partition has no producer state: no idempotent producer wrote in the last day.")


@txn.command(name="find-hanging")
@_bootstrap
@_as_json
@click.option("--topic", metavar="NAME", help="Only this topic.")
@click.option("--partition", metavar="NUMBER", type=click.IntRange(0), help="Only this partition of --topic.")
@click.option("--broker-id", metavar="ID", type=int, help="Only partitions that this broker leads.")
@click.option(
    "--max-transaction-timeout",
    "max_timeout_min",
    metavar="MINUTES",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="No transaction may last longer: transaction.max.timeout.ms of the brokers.",
)
def find_hanging(
    bootstrap: str,
    as_json: bool,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    max_timeout_min: int,
) -> None:
    """Transactions that a partition holds open and that no coordinator will end.

    read_committed readers wait for them. Exits with 1 if there are any.
    """
    from oncelog.tools.txn.operations import find_hanging as search

    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic.")
    rows = _ask(
        bootstrap,
        lambda admin: search(
            admin,
            _now_ms(),
            topic=topic,
            partition=partition,
            broker_id=broker_id,
            max_timeout_ms=max_timeout_min * 60_000,
        ),
    )
    _show(rows, as_json, "No transaction hangs.")
    if rows:
        if not as_json:
            say()
            say("`oncelog txn abort --topic NAME --partition NUMBER --start-offset OFFSET` ends one.")
        sys.exit(EXIT_FOUND)


@txn.command()
@_bootstrap
@_as_json
@_topic
@_partition
@click.option(
    "--start-offset", metavar="OFFSET", type=int, help="Where the transaction begins, as find-hanging reports it."
)
@click.option("--producer-id", metavar="ID", type=int)
@click.option("--producer-epoch", metavar="EPOCH", type=int)
@click.option("--coordinator-epoch", metavar="EPOCH", type=int)
def abort(
    bootstrap: str,
    as_json: bool,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a hanging transaction on one partition, by --start-offset or by producer and epochs.

    Use it only for a transaction that find-hanging reports: its coordinator is not involved.
    """
    from oncelog.client.records import TopicPartition
    from oncelog.tools.txn.operations import abort as abort_by_producer
    from oncelog.tools.txn.operations import abort_at

    place = TopicPartition(topic, partition)
    if start_offset is not None:
        if (producer_id, producer_epoch, coordinator_epoch) != (None, None, None):
            raise click.UsageError("--start-offset is enough: leave out the producer and the epochs.")
        offset = start_offset
        row = _ask(bootstrap, lambda admin: abort_at(admin, place, offset))
    else:
        if producer_id is None or producer_epoch is None or coordinator_epoch is None:
            raise click.UsageError(
                "Give --start-offset, or all of --producer-id, --producer-epoch, --coordinator-epoch."
            )
        identity = (producer_id, producer_epoch, max(coordinator_epoch, 0))
        row = _ask(bootstrap, lambda admin: abort_by_producer(admin, place, *identity))
    _show([row], as_json, "")


@txn.command()
@_bootstrap
@_as_json
@click.argument("transactional_ids", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
def fence(bootstrap: str, as_json: bool, transactional_ids: Sequence[str]) -> None:
    """Abort the open transactions of these ids, and fence their producers."""
    from oncelog.tools.txn.operations import fence as fence_all

    _show(_ask(bootstrap, lambda admin: fence_all(admin, transactional_ids)), as_json, "")


txn.add_command(tail)


# --- requests, printing -----------------------------------------------------------------------------------------------


def _ask(bootstrap: str, work: "Callable[[Admin], Awaitable[Any]]") -> Any:
    from oncelog.client.admin import Admin
    from oncelog.client.errors import KafkaError
    from oncelog.protocol.errors import ProtocolError
    from oncelog.tools.txn.operations import NotFound

    host, _, port = bootstrap.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"{bootstrap!r} is not of the form HOST:PORT", param_hint="--bootstrap")

    async def call() -> Any:
        async with Admin(bootstrap, default_api_timeout_ms=_TIMEOUT_MS) as admin:
            return await work(admin)

    try:
        return asyncio.run(call())
    except (KafkaError, ProtocolError, NotFound) as error:
        fail(str(error), EXIT_FAILED)
    except UnicodeEncodeError as error:
        fail(f"{error.object} is not valid UTF-8, as names must be", EXIT_FAILED)
    except OSError as error:
        message = f"{bootstrap} does not respond: {error}; `oncelog health --bootstrap {bootstrap}` checks again"
        fail(message, EXIT_FAILED)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _show(rows: Sequence[Row], as_json: bool, nothing: str) -> None:
    if as_json:
        say_json(rows)
    elif rows:
        say_table(rows)
    else:
        say(nothing)
