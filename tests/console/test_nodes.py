"""What the overview says of the nodes of a cluster, and of those that have led it."""

import re
from dataclasses import replace
from uuid import UUID

import httpx
import pytest

from oncelog.client.admin.descriptions import QuorumDescription, QuorumReplica
from oncelog.client.blocking.clients import Admin
from oncelog.client.values.errors import KafkaError, RequestTimedOut, error_for
from oncelog.console.nodes import NodeRole, Takeover, Takeovers, roles_of
from oncelog.console.reading import Reader
from oncelog.protocol.errors import ErrorCode
from oncelog.testing import Broker
from tests.conftest import Start
from tests.support.console.consoles import TIMEOUT_MS, console, serving, text_of
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres.pair import Pair
from tests.support.postgres.server import Postgres

NO_NODE = UUID(int=0)
NOW_MS = 1_000_000
LEASE_MS = 10_000
"""A node that was killed is gone after as long."""
_WHY = "node 1 has had no connection to PostgreSQL for a while"
LEADER = QuorumReplica(1, NO_NODE, 20, NOW_MS, NOW_MS, NOW_MS - 200_000, "node 3 has handed over to this one")
STANDS_BY = QuorumReplica(2, NO_NODE, 20, NOW_MS - 900, NOW_MS - 900, rounds_behind=12)
QUORUM = QuorumDescription(1, 7, 20, (LEADER,), (STANDS_BY,))
ALONE = replace(QUORUM, observers=())
OF_KAFKA = QuorumDescription(
    1, 7, 20, (replace(LEADER, leading_since_ms=-1, leading_reason=""),), (replace(STANDS_BY, rounds_behind=-1),)
)


def test_each_node_leads_or_stands_by_or_starts_or_is_gone() -> None:
    starts = QuorumReplica(4, NO_NODE, -1, NOW_MS + 3, -1)
    quorum = replace(QUORUM, observers=(STANDS_BY, starts))
    assert roles_of((1, 2, 3, 4), quorum, NOW_MS) == {
        1: NodeRole("leads", 200_000, 7, "node 3 has handed over to this one"),
        2: NodeRole("stands by", silent_ms=900, rounds_behind=12, has_metadata=True),
        3: NodeRole("gone"),
        4: NodeRole("starts", silent_ms=0),
    }
    behind = replace(QUORUM, observers=(replace(STANDS_BY, log_end_offset=19),))
    assert not roles_of((1, 2), behind, NOW_MS)[2].has_metadata


@pytest.mark.parametrize(
    ("nodes", "quorum"),
    [((1,), QUORUM), ((1,), ALONE), ((1, 2), OF_KAFKA), ((2, 3), QUORUM), ((1, 2), replace(QUORUM, leader_id=-1))],
    ids=["one node", "alone", "of Kafka", "of controllers that are no brokers", "without a leader"],
)
def test_nothing_is_said_of_one_node_or_of_a_quorum_that_is_not_ours(
    nodes: tuple[int, ...], quorum: QuorumDescription
) -> None:
    assert roles_of(nodes, quorum, NOW_MS) == {}


def led_by(node_id: int, epoch: int, *observers: QuorumReplica) -> QuorumDescription:
    leader = QuorumReplica(node_id, NO_NODE, 20, NOW_MS, NOW_MS, epoch * 1_000, f"reason {epoch}")
    return QuorumDescription(node_id, epoch, 20, (leader,), observers)


def test_what_led_in_an_earlier_look_was_taken_over_from() -> None:
    """Each leadership is seen once, the newest first; a leadership between two looks is a gap in the epochs."""
    takeovers = Takeovers()
    for quorum in (led_by(1, 3, STANDS_BY), led_by(1, 3, STANDS_BY), led_by(2, 4), OF_KAFKA, led_by(2, 4)):
        takeovers.look(quorum)
    takeovers.look(led_by(1, 7, STANDS_BY))
    assert takeovers.seen == (Takeover(7_000, 1, 7, 2, 4, "reason 7"), Takeover(4_000, 2, 4, 1, 3, "reason 4"))
    takeovers.look(led_by(1, 9))
    assert takeovers.seen[:-2] == (Takeover(9_000, 1, 9, 1, 7, "reason 9"),)


def test_a_node_that_is_alone_takes_over_from_no_node() -> None:
    takeovers = Takeovers()
    for epoch in range(3):
        takeovers.look(led_by(1, epoch))
    takeovers.look(led_by(2, 1))
    assert takeovers.seen == ()


class _Refused(Reader):
    def __init__(self, bootstrap: str, error: KafkaError) -> None:
        super().__init__(bootstrap, TIMEOUT_MS)
        self._error = error

    async def quorum(self) -> QuorumDescription:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), RequestTimedOut("DESCRIBE_QUORUM: no response")],
    ids=str,
)
async def test_the_overview_is_there_where_the_quorum_is_not_described(error: KafkaError) -> None:
    with Broker() as broker:
        pages = []
        for cluster in (_Refused(broker.bootstrap_servers, error), broker.bootstrap_servers):
            async with console(cluster) as client:
                pages.append(text_of((await client.get("/")).text).partition("Brokers")[2])
    assert pages[0] == pages[1]
    assert f"{broker.bootstrap_servers} 0 controller" in pages[0]
    assert "leads" not in pages[0]


def test_a_take_over_is_shown_by_page_and_client(postgres: Postgres, start_daemon: Start) -> None:
    """The page and Admin show the leader, since when and why, the standbys and their lag, and the nodes that are
    gone.
    """
    pair = Pair(postgres, start_daemon, lease_ms=LEASE_MS)
    first, second = (pair.nodes[number].bootstrap for number in (1, 2))
    with serving(Reader(pair.bootstrap, TIMEOUT_MS)) as address, httpx.Client(timeout=PATIENCE_S) as client:
        pages: list[str] = []

        def shows(text: str) -> bool:
            pages.append(text_of(client.get(address).text).partition("Brokers")[2])
            return text in pages[-1]

        until(lambda: shows("stands by has"))
        shown = pages[-1]
        assert re.search(rf"1 {first} \d+ leads for [^,]+, in epoch 1: no broker has led before", shown)
        assert re.search(rf"2 {second} 0 stands by has [^,]*(, \d+ rounds? behind)? , heard of [^,]+ ago", shown)
        assert "Take-overs" not in shown
        pair.nodes[1].kill()
        until(lambda: shows(f"1 {first} 0 gone"))
        shown = pages[-1]
        assert re.search(rf"2 {second} \d+ leads for [^,]+, in epoch 2: {_WHY}", shown)
        assert f"node 2, epoch 2 node 1, epoch 1 {_WHY}" in shown
    with Admin(second) as admin:
        quorum = admin.describe_quorum()
    assert (quorum.leader_id, quorum.leader_epoch, quorum.observers) == (2, 2, ())
    assert quorum.leader is not None
    assert quorum.leader.leading_reason == _WHY


def test_a_client_that_knows_a_standby_alone_describes_the_quorum(postgres: Postgres, start_daemon: Start) -> None:
    """The standby is an observer that has what the leader has."""
    pair = Pair(postgres, start_daemon, lease_ms=LEASE_MS)
    with Admin(pair.nodes[2].bootstrap) as admin:
        until(lambda: any(each.last_caught_up_time_ms >= 0 for each in admin.describe_quorum().observers))
        quorum = admin.describe_quorum()
    (observer,) = quorum.observers
    assert (quorum.leader_id, observer.node_id) == (1, 2)
    assert 0 < observer.log_end_offset <= quorum.high_watermark
    assert observer.rounds_behind >= 0
