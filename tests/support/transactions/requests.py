"""What each request asks the coordinator's decisions, by the table that has their answers.

Owns: the requests by name, and how a cell of a table becomes a decision. Does not own: the tables
(`transaction_tables`), the lives and pairs (`transaction_lives`).
"""

from collections.abc import Callable

from oncelog.broker.coordinator.transaction.begin_decisions import (
    prepare_add_partitions,
    prepare_init_producer_id,
    verify_partition,
)
from oncelog.broker.coordinator.transaction.end_decisions import prepare_end_transaction_v1, prepare_end_transaction_v2
from oncelog.broker.coordinator.transaction.metadata import Decision, TransactionMetadata
from tests.support.transactions.lives import FRESH_ID, Pair
from tests.support.transactions.samples import NOW_MS, PARTITION, TIMEOUT_MS
from tests.support.transactions.tables import ADD_PARTITIONS, END_V1, END_V2, INIT_PRODUCER_ID, VERIFY_PARTITION, Tables

Known = TransactionMetadata | None
Ask = Callable[[Known, Pair, bool, int], Decision]
"""(what is known, who asks, is a transition pending, the first or the second kind) → decision."""
ANOTHER = ("topic", 1)


def init_producer_id(known: Known, pair: Pair, is_pending: bool, kind: int) -> Decision:
    return prepare_init_producer_id(
        known,
        "id",
        TIMEOUT_MS,
        *pair,
        is_pending=is_pending,
        fresh_producer_id=FRESH_ID,
        transaction_version=kind + 1,
        wall_ms=NOW_MS,
    )


def add_for(version: int) -> Ask:
    def add(known: Known, pair: Pair, is_pending: bool, kind: int) -> Decision:
        partitions = [(ANOTHER, PARTITION)[kind]]
        return prepare_add_partitions(
            known, *pair, partitions, is_pending=is_pending, transaction_version=version, wall_ms=NOW_MS
        )

    return add


def verify(known: Known, pair: Pair, is_pending: bool, kind: int) -> Decision:
    return Decision(verify_partition(known, *pair, (PARTITION, ANOTHER)[kind], ()))


def end_v1(known: Known, pair: Pair, is_pending: bool, kind: int) -> Decision:
    return prepare_end_transaction_v1(known, *pair, kind == 0, is_pending=is_pending, wall_ms=NOW_MS)


def end_v2(known: Known, pair: Pair, is_pending: bool, kind: int) -> Decision:
    return prepare_end_transaction_v2(
        known, *pair, kind == 0, is_pending=is_pending, fresh_producer_id=FRESH_ID, wall_ms=NOW_MS
    )


# By name: the tables, who answers, and what of the metadata it looks at.
REQUESTS: dict[str, tuple[Tables, Ask]] = {
    "InitProducerId": (INIT_PRODUCER_ID, init_producer_id),
    "AddPartitionsToTxn of version 1": (ADD_PARTITIONS, add_for(0)),
    "AddPartitionsToTxn of version 2": (ADD_PARTITIONS, add_for(2)),
    "verification": (VERIFY_PARTITION, verify),
    "EndTxn of version 1": (END_V1, end_v1),
    "EndTxn of version 2": (END_V2, end_v2),
}
