"""What a process is among the nodes: the numbers and words that operators get."""

from random import Random

import pytest

from oncelog.broker.cluster.nodes import OtherNode
from oncelog.broker.observability.catalogue import OF_NODES
from oncelog.broker.storage.shared.followed import FollowedEnds
from oncelog.broker.storage.shared.lease import Free
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import NO_NODE, Lease, NodeRow, SeenNodes
from oncelog.broker.succession.roster import Roster
from oncelog.broker.succession.standing import Leading, Other, Standing, why_free
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime

OTHERS = Lease(3, "other", 17, 9_000.0, is_attended=True, node_id=2, held_ms=61_000.0)
ENDS = FollowedEnds()


class Scene:
    """Node 1, which sees one other node and that the newest round is the ninth."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        statements = Statements(FakeTables(Database(), self.time, self.time, Random(1)), self.time, self.time)
        self.roster = Roster(statements, self.time, self.time, 1, "one", 10_000)
        self.roster.nodes.others = [OtherNode(2, {})]
        self.roster.seen = SeenNodes((), 9, NO_NODE)
        self.standing = Standing(self.time, 1)


def test_a_node_that_has_just_begun_is_not_ready() -> None:
    standing = Scene().standing
    assert standing.trouble is not None
    assert standing.figures() == {"node_takeovers": 0}


def test_a_standby_is_ready_while_it_follows() -> None:
    """A standby that has not followed for five seconds is not ready and says for how long, until it does again."""
    scene = Scene()
    standing = scene.standing
    standing.stand_by(scene.roster, OTHERS)
    scene.time.advance(5_000)
    assert standing.trouble is None
    scene.time.advance(1_000)
    assert standing.trouble == "it stands by, and has not been able to follow the leader for 6.0 s"
    standing.on_followed(7)
    assert standing.trouble is None
    assert standing.figures() == {
        "node_leads": 0,
        "node_others": 1,
        "node_takeovers": 0,
        "node_since_seconds": 6.0,
        "node_rounds_behind": 2,
    }
    assert standing.log_fields["leader"] == 2
    assert "node 2, which has led for 61.0 s" in standing.log_fields["message"]


def test_what_leads_is_ready_however_long_it_did_not_follow() -> None:
    scene = Scene()
    scene.standing.lead(scene.roster, 4, OTHERS, Free.OVER, ENDS.at)
    scene.time.advance(60_000)
    assert scene.standing.trouble is None
    found = scene.standing.figures()
    assert (found["node_leads"], found["node_takeovers"], found["node_since_seconds"]) == (1, 1, 60.0)
    assert "node_rounds_behind" not in found
    assert (scene.standing.log_fields["leader"], scene.standing.log_fields["leader_epoch"]) == (1, 4)


def test_each_leadership_of_a_process_counts_and_a_time_between_two_has_its_reason() -> None:
    scene = Scene()
    scene.standing.lead(scene.roster, 4, OTHERS, Free.OVER, ENDS.at)
    scene.standing.unsettle("it has stopped leading")
    assert scene.standing.trouble == "it has stopped leading"
    assert scene.standing.figures() == {"node_takeovers": 1}
    scene.standing.stand_by(scene.roster, OTHERS)
    scene.standing.lead(scene.roster, 6, OTHERS, Free.OVER, ENDS.at)
    assert scene.standing.figures()["node_takeovers"] == 2


def test_a_leader_knows_how_far_each_other_node_at_work_is() -> None:
    """The age of another node's news counts from the renewal of its row, however long the leader has not looked since;
    nothing unknown is reported of a node that only starts, and a node that is gone is left out.
    """
    scene, ends = Scene(), FollowedEnds()
    ends.begin(3, 10)
    ends.collect(11)
    ends.collect(12)
    assert [ends.take(number) for number in (8, 9)] == [True, False]
    rows = (
        NodeRow(1, "one", (), left_ms=9_000),
        NodeRow(2, "two", (), followed=7, left_ms=8_500),
        NodeRow(3, "three", (), followed=9, left_ms=10_500),
        NodeRow(4, "four", (), followed=2, left_ms=10_000),
        NodeRow(5, "five", (), left_ms=9_900),
        NodeRow(6, "six", (), followed=9, is_over=True, left_ms=-1),
    )
    scene.roster._take(SeenNodes(rows, 9, NO_NODE))
    assert scene.standing.leading is None
    scene.standing.lead(scene.roster, 4, OTHERS, Free.OVER, ends.at)
    scene.time.advance(100)
    others = [Other(2, 1_600, 2, 10), Other(3, 100, 0, 12), Other(4, 100, 7, -1), Other(5, 200, NO_NODE, NO_NODE)]
    assert scene.standing.leading == Leading(100, "node 2 has not renewed its lease in time", others)
    scene.standing.unsettle("it has stopped leading")
    assert scene.standing.leading is None
    scene.standing.stand_by(scene.roster, OTHERS)
    assert scene.standing.leading is None


def test_every_figure_is_in_the_catalogue_and_the_other_way_round() -> None:
    scene = Scene()
    scene.standing.stand_by(scene.roster, OTHERS)
    assert set(scene.standing.figures()) == {family.name for family in OF_NODES}


OWN = OTHERS._replace(node_id=1)
REASONS: dict[str, tuple[Lease, Free, str]] = {
    "the first": (Lease(0, "", 0, 0, is_attended=False), Free.GIVEN_BACK, "no broker has led before"),
    "handed over": (OTHERS._replace(successor=1), Free.GIVEN_BACK, "node 2 has handed over to this one"),
    "given back": (OTHERS, Free.GIVEN_BACK, "node 2 has given the lease back"),
    "for another": (OTHERS._replace(successor=5), Free.GIVEN_BACK, "node 2 has given the lease back"),
    "over": (OTHERS, Free.OVER, "node 2 has not renewed its lease in time"),
    "unattended": (OTHERS, Free.UNATTENDED, "node 2 has had no connection to PostgreSQL for a while"),
    "its own": (OWN, Free.UNATTENDED, "an earlier start of this node has ended without giving the lease back"),
    "its own, over": (OWN, Free.OVER, "an earlier start of this node has ended without giving the lease back"),
    "its own, given back": (OWN, Free.GIVEN_BACK, "an earlier start of this node has given the lease back"),
    "no node": (OTHERS._replace(node_id=NO_NODE), Free.OVER, "the broker other has not renewed its lease in time"),
}


@pytest.mark.parametrize("left_ms", [9_000, -3])
@pytest.mark.parametrize("name", REASONS)
def test_the_log_says_why_the_lease_was_free(name: str, left_ms: float) -> None:
    """The reason does not depend on the time that the database's clock says is left."""
    lease, free, expected = REASONS[name]
    assert why_free(lease._replace(left_ms=left_ms), free, 1) == expected
