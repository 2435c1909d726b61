"""Kafka's own tools find the leader from any node, and that for the quorum shows how far those that stand by are."""

from collections.abc import Iterator

import pytest

from oncelog.client.blocking.clients import Admin
from tests.conftest import Start
from tests.support.foreign.interop import class_path, run_java
from tests.support.patience import until
from tests.support.postgres.pair import Pair
from tests.support.postgres.server import Postgres, started

pytestmark = pytest.mark.interop
_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
_AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_COLUMNS = ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    class_path()  # skips where there is no Java
    yield from started()


def test_the_tool_shows_the_leader_and_who_stands_by_whichever_node_it_is_given(
    postgres: Postgres, start_daemon: Start
) -> None:
    """It asks any node that it knows, and others until one of them leads; tags that it does not know are none to it."""
    pair = Pair(postgres, start_daemon, lease_ms=10_000)  # how far a node is, it says a few times in each
    with Admin(pair.bootstrap) as admin:
        until(lambda: any(each.log_end_offset > 0 for each in admin.describe_quorum().observers))
    for node in pair.nodes.values():
        head, *rows = _describe(node.bootstrap, "--replication")
        assert head == _COLUMNS
        assert [(row[0], row[1], row[-1]) for row in rows] == [
            ("1", "AAAAAAAAAAAAAAAAAAAAAA", "Leader"),
            ("2", "AAAAAAAAAAAAAAAAAAAAAA", "Observer"),
        ]
        leader, observer = ([int(each) for each in row[2:6]] for row in rows)
        assert 0 < observer[0] <= leader[0]
        assert (leader[1], observer[1]) == (0, leader[0] - observer[0])
        assert 0 < observer[2] <= leader[2]
    status = {line[0]: line[1:] for line in _describe(pair.nodes[2].bootstrap, "--status")}
    assert (status["LeaderId:"], status["LeaderEpoch:"], status["MaxFollowerLag:"]) == (["1"], ["1"], ["0"])
    assert " ".join(status["CurrentObservers:"]).startswith('[{"id": 2')
    assert f'["PLAINTEXT://{pair.nodes[1].bootstrap}"]' in " ".join(status["CurrentVoters:"])


def test_settings_and_rights_are_changed_whichever_node_a_tool_is_given(
    postgres: Postgres, start_daemon: Start
) -> None:
    """Kafka's tools send such changes to any node, which in Kafka forwards them."""
    pair = Pair(postgres, start_daemon, _AUTHORIZER, "super.users=User:ANONYMOUS")
    with Admin(pair.bootstrap) as admin:
        admin.create_topics("topic")
        until(lambda: bool(admin.describe_quorum().observers))
        for number, node in pair.nodes.items():
            there = "--bootstrap-server", node.bootstrap
            topic = "--entity-type", "topics", "--entity-name", "topic"
            value = f"{number}000000"
            run_java("kafka.admin.ConfigCommand", *there, "--alter", *topic, "--add-config", f"retention.ms={value}")
            assert admin.describe_configs(topic="topic")["retention.ms"] == value
            rule = "--add", "--allow-principal", f"User:{number}", "--operation", "Read", "--topic", "topic"
            run_java("org.apache.kafka.tools.AclCommand", *there, *rule)
        assert {each.principal for each in admin.describe_acls()} == {"User:1", "User:2"}


def test_groups_and_transactions_are_listed_once_a_node_has_ended(postgres: Postgres, start_daemon: Start) -> None:
    """Both tools ask each listed node, and would wait for one that has ended until they give up."""
    pair = Pair(postgres, start_daemon)
    pair.move_to(2)
    until(lambda: bool(pair.sql("select followed >= 0 from oncelog_node where node_id = 1")))
    pair.nodes[2].kill()
    until(lambda: pair.leader == 1)
    with Admin(pair.nodes[1].bootstrap) as admin:
        until(lambda: not admin.describe_quorum().observers)
    there = "--bootstrap-server", pair.bootstrap
    assert run_java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *there, "--list").strip() == ""
    (heading,) = run_java("org.apache.kafka.tools.TransactionsCommand", *there, "list").splitlines()
    assert heading.split()[0] == "TransactionalId"


def _describe(bootstrap: str, *options: str) -> list[list[str]]:
    printed = run_java(_TOOL, "--bootstrap-server", bootstrap, "describe", *options)
    return [line.split() for line in printed.splitlines() if line.strip()]
