"""The table of states agrees with the coordinator's, and its words never call a decided transaction open."""

import pytest

from oncelog.broker.coordinator.transaction import metadata
from oncelog.broker.coordinator.transaction.states import AT_REST, COMPLETED, PREPARED, TransactionState
from oncelog.protocol.transaction_states import MEANINGS, NO_TIMEOUT_MS, STATE_NAMES, Phase, explained, meaning_of


def test_it_has_the_states_of_the_coordinator_by_name_and_number() -> None:
    assert [(each.number, each.name) for each in MEANINGS] == [
        (each.value, each.kafka_name) for each in TransactionState
    ]


def test_a_transaction_without_a_timeout_has_the_number_that_the_coordinator_gives_it() -> None:
    assert NO_TIMEOUT_MS == metadata.NO_TIMEOUT_MS


def test_what_is_decided_ended_or_at_rest_is_that_for_the_coordinator_too() -> None:
    def of(*phases: Phase) -> set[TransactionState]:
        return {TransactionState(each.number) for each in MEANINGS if each.phase in phases}

    assert of("idle", "ended") == AT_REST
    assert of("ended") == COMPLETED
    # A fence is logged as the abort that it leads to.
    assert of("decided") == PREPARED | {TransactionState.PREPARE_EPOCH_FENCE}
    assert of("open") == {TransactionState.ONGOING}


@pytest.mark.parametrize("state", STATE_NAMES)
def test_only_an_open_transaction_has_a_timeout_and_can_be_aborted(state: str) -> None:
    meaning = meaning_of(state)
    assert meaning.has_timeout == meaning.can_be_aborted == (meaning.words == "Open") == (state == "Ongoing")
    assert (meaning.outcome is not None) == (meaning.phase in ("decided", "ended"))
    assert meaning.outcome is None or meaning.outcome in meaning.words


def test_a_decided_one_names_what_it_waits_for_and_of_many_three() -> None:
    assert explained("PrepareCommit") == "Decided: COMMIT, waiting for markers"
    assert explained("PrepareCommit", ["a-0", "b-1"]) == "Decided: COMMIT, waiting for markers of a-0, b-1"
    many = [f"a-{number}" for number in range(50)]
    assert explained("PrepareAbort", many) == "Decided: ABORT, waiting for markers of a-0, a-1, a-2 and 47 more"
    assert explained("PrepareAbort", []) == "Decided: ABORT, all markers are written"
    assert explained("CompleteCommit", many) == "Ended: COMMIT"


def test_a_state_of_a_later_release_is_named_and_nothing_is_claimed_of_it() -> None:
    meaning = meaning_of("PrepareSomething")
    assert not (meaning.has_timeout or meaning.can_be_aborted or meaning.holds_readers or meaning.outcome)
    assert "PrepareSomething" in explained("PrepareSomething")
