"""Every request in every state, by every kind of client, in both protocols: the decisions answer what the tables say.

The tables are whole: each state of each life, or the reason why it never has that state; each request that reads the
metadata of a transactional id. What Apache Kafka itself was asked of them: `tests/conformance/transaction_cells.py`.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from oncelog.broker.apis.compatibility import KAFKA
from oncelog.broker.coordinator.transaction.end_decisions import (
    prepare_abort_by_coordinator,
    prepare_end_transaction_v2,
)
from oncelog.broker.coordinator.transaction.metadata import Decision, TransactionMetadata, check_step
from oncelog.broker.coordinator.transaction.states import IllegalTransition, TransactionState
from oncelog.protocol.errors import ErrorCode
from tests.support.tables import rows
from tests.support.transactions.lives import FRESH_ID, LIVES, STATES, UNKNOWN
from tests.support.transactions.requests import REQUESTS, Known
from tests.support.transactions.samples import NOW_MS, metadata
from tests.support.transactions.tables import Cell, read

DEAD, FENCE = TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE
CELLS = [(request, cell, outcomes) for request, (tables, _) in REQUESTS.items() for cell, outcomes in read(tables)]


def told(previous: Known, decision: Decision) -> str:
    """A decision in the words of the tables."""
    assert not decision.needs_producer_id
    target = decision.target
    if target is None:
        return decision.error.name
    check_step(previous, target)
    logged = f"{target.state.kafka_name} {target.producer_epoch}"
    if previous is None or target.producer_id != previous.producer_id:
        logged += f" of {target.producer_id}"
    if target.next_producer_id != -1:
        logged += f" +{target.next_producer_id}"
    return f"{decision.error.name}, {logged}" if decision.error else logged


@rows("request_name, cell, outcomes", CELLS, lambda row: f"{row[0]}: {', '.join(row[1])}")
def test_a_request_is_answered_as_its_table_says(request_name: str, cell: Cell, outcomes: tuple[str, str]) -> None:
    life, state, who = cell
    _, ask = REQUESTS[request_name]
    is_pending = state.startswith("pending ")
    known = LIVES[life].states[state.removeprefix("pending ")]
    for pair in LIVES[life].who[who]:
        for kind, expected in enumerate(outcomes):
            assert told(known, ask(known, pair, is_pending, kind)) == expected, pair


# --- the tables are whole ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("life", LIVES)
def test_a_life_has_each_state_or_says_why_not(life: str) -> None:
    known = LIVES[life]
    assert sorted([*known.states, *known.never]) == sorted(STATES)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_cell_stands_in_the_tables_once(request_name: str) -> None:
    tables, _ = REQUESTS[request_name]
    # Only InitProducerId looks at the epoch before the last, which a restart forgets.
    lives = set(LIVES) if request_name == "InitProducerId" else set(LIVES) - {"restarted"}
    # A verification is of what is durable: it does not look at a pending transition.
    phases = ("",) if request_name == "verification" else ("", "pending ")
    cells = {
        (life, phase + state, who)
        for life, phase in product(lives, phases)
        for state, who in product(LIVES[life].states, LIVES[life].who)
        if not (phase and state == UNKNOWN)
    }
    assert Counter(cell for cell, _ in read(tables)) == Counter(cells)


def test_what_looks_at_the_epoch_before_the_last_is_init_producer_id_alone() -> None:
    for name, (tables, ask) in REQUESTS.items():
        if name == "InitProducerId":
            continue
        for (life, state, who), _ in read(tables):
            if life == "ordinary" and state in LIVES["restarted"].states:
                for pair, kind in product(LIVES[life].who[who], (0, 1)):
                    answers = [told(known, ask(known, pair, False, kind)) for known in (metadata_of(life, state))]
                    assert answers[0] == answers[1]


def metadata_of(life: str, state: str) -> tuple[TransactionMetadata, TransactionMetadata]:
    """The metadata of a state, live, and after a restart."""
    live, restarted = LIVES[life].states[state], LIVES["restarted"].states[state]
    assert live is not None and restarted is not None
    return live, restarted


@pytest.mark.parametrize("request_name", REQUESTS)
def test_no_transition_starts_in_a_state_that_is_never_logged_alone(request_name: str) -> None:
    """Kafka throws there too. The one way on is the abort that a fence stands for."""
    _, ask = REQUESTS[request_name]
    for state, pair, kind in product((DEAD, FENCE), ((-1, -1), (7, 3), (7, 2)), (0, 1)):
        with suppress(IllegalTransition, KeyError):
            target = ask(metadata(state), pair, False, kind).target
            assert target is None or (state, target.state) == (FENCE, TransactionState.PREPARE_ABORT)


def test_a_commit_that_an_abort_has_overtaken_is_fenced_here_and_nothing_else_differs() -> None:
    """The tables are Kafka 4.3's. A commit in CompleteAbort is fenced where an abort by the same
    pair would be a retry (KAFKA-20785)."""
    tables, _ = REQUESTS["EndTxn of version 2"]
    retried = []
    for (life, state, who), kafkas in read(tables):
        known = LIVES[life].states[state.removeprefix("pending ")]
        for pair, kind in product(LIVES[life].who[who], (0, 1)):
            decision = prepare_end_transaction_v2(
                known,
                *pair,
                kind == 0,
                is_pending=state.startswith("pending "),
                fresh_producer_id=FRESH_ID,
                wall_ms=NOW_MS,
                compatibility=replace(KAFKA, fences_late_commits=True),
            )
            is_overtaken = state == "CompleteAbort" and kind == 0 and kafkas[1] == "NONE"
            assert told(known, decision) == ("PRODUCER_FENCED" if is_overtaken else kafkas[kind])
            retried += [(life, who)] * is_overtaken
            assert not is_overtaken or kafkas[0] == "INVALID_TXN_STATE"
    assert {life for life, _ in retried} == {"ordinary", "last epoch", "fenced at the last epoch", "rotated"}


# --- the coordinator's own aborts: a timeout, a new instance ----------------------------------------------------------

ABORT_OF_WHAT_IS_OPEN = {
    # life: at level 1, at level 2
    "ordinary": ("PrepareAbort 4", "PrepareAbort 4"),
    "restarted": ("PrepareAbort 4", "PrepareAbort 4"),
    "last epoch": ("PrepareAbort 32767", "PrepareAbort 32767 +10"),
    "fenced at the last epoch": ("PrepareAbort 32767", "PrepareAbort 32767 +10"),
}


@pytest.mark.parametrize("life", [life for life in LIVES if "Ongoing" in LIVES[life].states])
def test_the_coordinator_ends_an_open_transaction_as_the_table_says(life: str) -> None:
    opened = LIVES[life].states["Ongoing"]
    assert opened is not None
    for level, expected in enumerate(ABORT_OF_WHAT_IS_OPEN[life], start=1):
        decision = prepare_abort_by_coordinator(
            opened, transaction_version=level, fresh_producer_id=FRESH_ID, wall_ms=NOW_MS
        )
        assert told(opened, decision) == expected
        assert decision.error is ErrorCode.NONE
