"""No number at the edge of its type, once stored, keeps the broker from answering: before a stop, after it, or later.

Each name of the table is what stores the numbers; the fast suite tries a sample of them, `make test-all` the others.
"""

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers import describe_share_group_offsets
from oncelog.protocol.errors import ErrorCode
from tests.fuzz.conversation import Wrong
from tests.fuzz.edge_scene import Scene, Step, errors_of
from tests.fuzz.edges import BEFORE, Story, stories

STORIES = stories()
TEN_MINUTES_MS = 600_000
# Whose base message is refused on one node, or of what is not there, and why.
REFUSED = {
    "add_raft_voter": "one node has no other voters",
    "alter_replica_log_dirs": "there is one directory",
    "consumer_group_describe": "nothing is stored yet",
    "delete_groups": "nothing is stored yet",
    "delete_share_group_offsets": "nothing is stored yet",
    "describe_groups": "nothing is stored yet",
    "describe_quorum": "it is of the metadata alone",
    "describe_transactions": "nothing is stored yet",
    "describe_user_scram_credentials": "nothing is stored yet",
    "elect_leaders": "the one node leads",
    "offset_delete": "nothing is stored yet",
    "remove_raft_voter": "one node has no other voters",
    "sasl_authenticate": "a login is no story",
    "sasl_handshake": "a login is no story",
    "share_group_describe": "nothing is stored yet",
    "streams_group_describe": "nothing is stored yet",
    "unregister_broker": "one node has no other brokers",
}


def play(stored: tuple[Story, ...]) -> None:
    scene = Scene.start()
    for story in stored:
        scene.begin()
        for step in story.steps:
            scene.ask(step)
            if step.path:  # what comes after may replace the number
                scene.read()
        scene.read()
    scene.let_pass(TEN_MINUTES_MS)
    scene.stop()
    for number in range(1, len(stored) + 1):
        scene.number = number
        scene.read()
    scene.let_pass(TEN_MINUTES_MS)


@pytest.mark.sampled(29)
@pytest.mark.parametrize("stored", STORIES.values(), ids=list(STORIES))
def test_every_api_answers_whatever_numbers_are_stored(stored: tuple[Story, ...]) -> None:
    play(stored)


@pytest.mark.sampled(3)
@pytest.mark.interpreted  # replaces a function of a handler
@pytest.mark.parametrize(
    "api", ["alter_share_group_offsets", "initialize_share_group_state", "write_share_group_state"]
)
def test_a_lag_that_leaves_its_type_is_found_by_each_api_that_stores_a_start_offset(
    monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    monkeypatch.setattr(describe_share_group_offsets, "_as_long", lambda number: number)
    with pytest.raises(Wrong, match="describe_share_group_offsets"):
        play(STORIES[api])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("api", [api.name for api in API_TABLE.values() if api.name not in REFUSED])
def test_the_base_message_of_every_api_is_answered_without_an_error(api: str) -> None:
    """Otherwise its numbers are refused with it, and none is stored."""
    scene = Scene.start()
    scene.begin()
    for name in (*BEFORE.get(api, ()), api):
        answer = scene.ask(Step(name))
    assert answer is not None and errors_of(answer) <= {ErrorCode.NONE}, answer
