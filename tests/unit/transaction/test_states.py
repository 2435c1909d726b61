"""The table of transitions, and the picture of it."""

import pytest

from oncelog.broker.coordinator.transaction.states import (
    VALID_PREVIOUS_STATES,
    IllegalTransition,
    TransactionState,
    check_transition,
    mermaid,
)

S = TransactionState


def test_only_the_moves_of_the_table_exist() -> None:
    for target in TransactionState:
        for previous in TransactionState:
            if previous in VALID_PREVIOUS_STATES[target]:
                check_transition(previous, target)
            else:
                with pytest.raises(IllegalTransition):
                    check_transition(previous, target)


def test_a_prepared_transaction_has_one_way_on_and_nothing_turns_a_commit_into_an_abort() -> None:
    for prepared, completed in ((S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)):
        assert [target for target in TransactionState if prepared in VALID_PREVIOUS_STATES[target]] == [completed]


def test_the_diagram_has_every_move() -> None:
    diagram = mermaid()
    moves = sum(len(sources) for sources in VALID_PREVIOUS_STATES.values())
    assert diagram.count(" --> ") == moves + 2
    assert "Ongoing --> PrepareCommit" in diagram
