"""`oncelog group` and `txn` against a broker: what cannot be done is said, and is no success."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client import TopicPartition
from oncelog.sync import Admin, Consumer
from oncelog.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics("a", "b")
        yield broker


def run(broker: Broker, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--bootstrap", broker.bootstrap_servers])


def committed(broker: Broker, group: str) -> dict[TopicPartition, int]:
    with Admin(broker.bootstrap_servers) as admin:
        return {place: each.offset for place, each in admin.list_group_offsets(group).items()}


def commit(broker: Broker, group: str, *topics: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0 for topic in topics})


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--create",), ("--create", "--dry-run")], ids=" ".join)
def test_the_offsets_of_a_group_with_members_cannot_be_reset_nor_tried(
    broker: Broker, options: tuple[str, ...]
) -> None:
    with Consumer("a", bootstrap_servers=broker.bootstrap_servers, group_id="busy") as consumer:
        while not consumer.assignment():
            consumer.poll(1_000)
        result = run(broker, "group", "reset", "busy", "--topic", "a", "--to", "start", *options)
    said = "oncelog: group 'busy' has members: stop its consumers first; `oncelog group describe` shows them\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_a_group_that_does_not_exist_can_be_given_offsets_and_tried(broker: Broker) -> None:
    arguments = ("group", "reset", "new", "--topic", "a", "--to", "start", "--create")
    assert run(broker, *arguments, "--dry-run").exit_code == 0
    assert committed(broker, "new") == {}
    assert run(broker, *arguments).exit_code == 0
    assert committed(broker, "new") == {TopicPartition("a", 0): 0}


def test_offsets_that_a_group_does_not_have_cannot_be_deleted_nor_any_beside_them(broker: Broker) -> None:
    commit(broker, "billing", "a", "b")
    assert run(broker, "group", "delete", "billing", "--topic", "b").exit_code == 0
    assert committed(broker, "billing") == {TopicPartition("a", 0): 0}
    for topics in (("--topic", "b"), ("--topic", "a", "--topic", "b")):
        result = run(broker, "group", "delete", "billing", *topics)
        assert result.exit_code == 2
        assert "group 'billing' has no offsets of 'b': nothing was deleted; `oncelog group offsets`" in result.stderr
    assert committed(broker, "billing") == {TopicPartition("a", 0): 0}


def test_a_pattern_that_brokers_cannot_read_is_named_with_its_option(broker: Broker) -> None:
    result = run(broker, "txn", "list", "--transactional-id-pattern", "(")
    said = "oncelog: --transactional-id-pattern: '(' is not a regular expression of RE2, which brokers read: "
    assert result.exit_code == 2 and result.stderr.startswith(said)


def test_an_unknown_broker_is_said_with_the_ids_that_are_known(broker: Broker) -> None:
    result = run(broker, "txn", "find-hanging", "--broker-id", "9")
    assert (result.exit_code, result.stderr) == (2, "oncelog: there is no broker with id 9; known ids: 1\n")


def test_a_transaction_that_may_not_stay_open_so_long_is_refused_in_one_sentence(broker: Broker) -> None:
    result = run(broker, "record", "produce", "a", "x", "--transactional-id", "long", "--leave-open", "20m")
    assert result.exit_code == 2 and "; --leave-open and 30 s more must fit into" in result.stderr
    assert ".;" not in result.stderr
