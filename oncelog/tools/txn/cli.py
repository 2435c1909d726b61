"""`oncelog txn`: the transactions of a running cluster, for operators. Works with any Kafka from 3.0 on.

Owns: the options. Does not own: connecting, printing, errors (`oncelog.tools.asking`), the requests
(`oncelog.tools.txn.operations`, imported when a command runs).
Exit codes: 0 done, 1 hanging transactions were found, 2 failed.
"""

import time
from shlex import quote

import click

from oncelog.protocol.printable import printable, printable_names
from oncelog.protocol.transaction_states import STATE_NAMES
from oncelog.tools.asking import EXIT_FOUND, LONG_NUMBER, NUMBER, Answer, Session, Shown, asks, not_empty
from oncelog.tools.names import TOPICS, TRANSACTIONAL_IDS
from oncelog.tools.txn.tail_cli import tail

_topic = click.option("--topic", metavar="NAME", required=True, type=not_empty, shell_complete=TOPICS)
_partition = click.option("--partition", metavar="NUMBER", type=NUMBER, required=True)


@click.group()
def txn() -> None:
    """Inspect transactions, follow them, and end hanging ones."""


@asks(txn, "list")
@click.option("--state", "states", type=click.Choice(STATE_NAMES), multiple=True)
@click.option(
    "--producer-id", "producer_ids", metavar="ID", type=LONG_NUMBER, multiple=True, help="Only ids of this producer."
)
@click.option(
    "--duration-filter",
    "duration_ms",
    metavar="MS",
    type=click.IntRange(-1, 2**63 - 1),
    default=-1,
    help="Only ids whose transaction began longer ago, also if it has ended; see --state.",
)
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match completely.")
async def list_(
    session: Session, states: tuple[str, ...], producer_ids: tuple[int, ...], duration_ms: int, pattern: str | None
) -> Shown:
    """List every transactional id, and its state."""
    from oncelog.tools.txn.operations import list_transactions

    rows = await list_transactions(session.admin, states, producer_ids, duration_ms, pattern or None)
    return Answer(rows, "No transactional id matches." if states or duration_ms >= 0 else "There is no transaction.")


@asks(txn)
@click.argument("transactional_id", metavar="TRANSACTIONAL_ID", type=not_empty, shell_complete=TRANSACTIONAL_IDS)
async def describe(session: Session, transactional_id: str) -> Shown:
    """Show the producer, state and partitions of an id."""
    from oncelog.tools.txn.operations import describe_transaction

    return await describe_transaction(session.admin, transactional_id, _now_ms())


@asks(txn)
@_topic
@_partition
async def producers(session: Session, topic: str, partition: int) -> Shown:
    """List the producers of a partition, and what they have open."""
    from oncelog.client.values.records import TopicPartition
    from oncelog.tools.txn.operations import producers as producers_of

    rows = await producers_of(session.admin, TopicPartition(topic, partition))
    return Answer(rows, "The partition has no producer state: no idempotent producer wrote in the last day.")


@asks(txn, "find-hanging")
@click.option("--topic", metavar="NAME", type=not_empty, shell_complete=TOPICS, help="Only this topic.")
@click.option("--partition", metavar="NUMBER", type=NUMBER, help="Only this partition of --topic.")
@click.option("--broker-id", metavar="ID", type=NUMBER, help="Only partitions that this broker leads.")
@click.option(
    "--max-transaction-timeout",
    "max_timeout_min",
    metavar="MINUTES",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="No transaction may last longer: transaction.max.timeout.ms of the brokers.",
)
async def find_hanging(
    session: Session, topic: str | None, partition: int | None, broker_id: int | None, max_timeout_min: int
) -> Shown:
    """Find open transactions that no coordinator will end.

    read_committed readers wait for them. Exits with 1 if there are any.
    """
    from oncelog.tools.txn.operations import find_hanging as search

    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic.")
    rows = await search(
        session.admin,
        _now_ms(),
        topic=topic,
        partition=partition,
        broker_id=broker_id,
        max_timeout_ms=max_timeout_min * 60_000,
    )
    hint = "`oncelog txn abort --topic NAME --partition NUMBER --start-offset OFFSET` ends one."
    nothing = (
        "No transaction hangs. `oncelog txn list --state Ongoing --duration-filter 60000` shows those that are open "
        "for over a minute, and `oncelog txn fence` ends one; with `--state PrepareCommit --state PrepareAbort` those "
        "that are decided and wait for markers."
    )
    return Answer(rows, nothing, hint, EXIT_FOUND if rows else 0)


@asks(txn, question=lambda topic, partition, **_: f"Abort that transaction on {printable(topic)}-{partition}?")
@_topic
@_partition
@click.option(
    "--start-offset",
    metavar="OFFSET",
    type=LONG_NUMBER,
    help="Where the transaction begins, as find-hanging reports it.",
)
@click.option("--producer-id", metavar="ID", type=LONG_NUMBER)
@click.option("--producer-epoch", metavar="EPOCH", type=click.IntRange(0, 2**15 - 1))
@click.option("--coordinator-epoch", metavar="EPOCH", type=click.IntRange(-1, 2**31 - 1))
async def abort(
    session: Session,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> Shown:
    """Abort a hanging transaction on one partition.

    By --start-offset, or by producer and epochs. Use it only for a transaction that find-hanging reports: its
    coordinator is not involved. One that its coordinator knows is ended on all its partitions, and its producer fenced,
    by `oncelog txn fence TRANSACTIONAL_ID`.
    """
    from oncelog.client.values.records import TopicPartition
    from oncelog.tools.txn.operations import abort as abort_by_producer
    from oncelog.tools.txn.operations import abort_at, open_id_of

    place = TopicPartition(topic, partition)
    if start_offset is not None:
        if (producer_id, producer_epoch, coordinator_epoch) != (None, None, None):
            raise click.UsageError("--start-offset is enough: leave out the producer and the epochs.")
        row = await abort_at(session.admin, place, start_offset)
    elif producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise click.UsageError("Give --start-offset, or all of --producer-id, --producer-epoch, --coordinator-epoch.")
    else:
        epoch = max(coordinator_epoch, 0)
        row = await abort_by_producer(session.admin, place, producer_id, producer_epoch, epoch)
    known_as = await open_id_of(session.admin, row["producer_id"])
    if known_as is None:
        return [row]
    hint = f"Its coordinator still has it open: `oncelog txn fence {quote(known_as)}` ends it on all its partitions."
    return Answer([row], hint=hint)


def _fence_question(transactional_ids: tuple[str, ...]) -> str:
    return f"Abort what is open of {printable_names(transactional_ids)}, and fence the producers?"


@asks(txn, question=_fence_question)
@click.argument(
    "transactional_ids",
    metavar="TRANSACTIONAL_ID...",
    nargs=-1,
    required=True,
    type=not_empty,
    shell_complete=TRANSACTIONAL_IDS,
)
async def fence(session: Session, transactional_ids: tuple[str, ...]) -> Shown:
    """Abort what is open of these ids, and fence their producers.

    A transaction whose outcome is decided is not aborted: its producer is fenced once every partition has its marker.
    """
    from oncelog.tools.txn.operations import fence as fence_all

    return await fence_all(session.admin, transactional_ids)


txn.add_command(tail)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
