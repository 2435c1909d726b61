"""The table of states, and nothing beside it."""

import pytest

from oncelog.broker.coordinator.group.classic.states import (
    VALID_PREVIOUS_STATES,
    GroupState,
    IllegalTransition,
    check_transition,
    mermaid,
)


@pytest.mark.parametrize("target", GroupState)
@pytest.mark.parametrize("previous", GroupState)
def test_a_move_is_legal_exactly_when_the_table_has_it(previous: GroupState, target: GroupState) -> None:
    if previous in VALID_PREVIOUS_STATES[target]:
        check_transition(previous, target)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(previous, target)


def test_a_dead_group_stays_dead() -> None:
    assert not any(GroupState.DEAD in sources for sources in VALID_PREVIOUS_STATES.values())


def test_the_diagram_shows_every_move_of_the_table() -> None:
    lines = {line.strip() for line in mermaid().splitlines()}
    for target, sources in VALID_PREVIOUS_STATES.items():
        assert {f"{source.value} --> {target.value}" for source in sources} <= lines
