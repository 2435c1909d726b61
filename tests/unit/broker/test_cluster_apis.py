"""What one node reports about itself is true, what it cannot do it refuses in words, and asking changes nothing."""

import re
from importlib import import_module
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.config.pattern import LONGEST_PATTERN, compiled_pattern, matching
from oncelog.protocol.codec_parts import snake_case
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.generated import alter_user_scram_credentials_request as scram
from oncelog.protocol.generated import describe_log_dirs_request as log_dirs
from oncelog.protocol.generated import describe_quorum_request as quorum
from oncelog.protocol.generated.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from oncelog.protocol.generated.elect_leaders_request import ElectLeadersRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.unregister_broker_request import UnregisterBrokerRequest
from oncelog.protocol.schema import ArrayOf, Structure
from oncelog.protocol.types import Variable
from tests.clients.administration import create, delete, produce
from tests.fakes.broker import HOST, PORT, VirtualBroker

TOPIC = "topic"
LONG = "é" * 16_000
ANSWERED_BY_THE_CLUSTER = (*range(29, 32), *range(34, 52), 55, 60, 64, *range(66, 93))


def sizes(broker: VirtualBroker) -> dict[tuple[str, int], int]:
    (directory,) = broker.ask(log_dirs.DescribeLogDirsRequest(topics=None), 5).results
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in directory.topics
        for partition in topic.partitions
    }


def test_the_size_of_a_partition_is_what_its_segments_take_on_disk() -> None:
    broker = VirtualBroker("log.segment.bytes=1048576")
    create(broker, TOPIC, 2)
    assert sizes(broker) == {(TOPIC, 0): 0, (TOPIC, 1): 0}
    for _ in range(30):
        produce(broker, TOPIC, value=b"x" * 100_000, partition=1)
    for running in (broker, broker.killed()):
        names = [name for name in running.disk.list_dir(f"{TOPIC}-1") if name.endswith(".log")]
        on_disk = sum(len(running.disk.read_bytes(f"{TOPIC}-1/{name}")) for name in names)
        assert len(names) > 1
        assert sizes(running) == {(TOPIC, 0): 0, (TOPIC, 1): on_disk}
    delete(broker, TOPIC)
    assert sizes(broker) == {}


def test_room_on_the_volume_shrinks_by_what_is_written() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    before = broker.ask(log_dirs.DescribeLogDirsRequest(topics=[]), 4).results[0]
    produce(broker, TOPIC, value=b"x" * 100_000)
    after = broker.ask(log_dirs.DescribeLogDirsRequest(topics=[]), 4).results[0]
    assert after.total_bytes == before.total_bytes
    assert before.usable_bytes - after.usable_bytes >= 100_000


def test_the_cluster_is_one_broker_at_the_address_of_the_clients_listener() -> None:
    running = VirtualBroker()
    answer = running.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    (only,) = answer.brokers
    assert (only.host, only.port, only.broker_id, only.is_fenced) == (HOST, PORT, answer.controller_id, False)
    assert answer.cluster_id == running.broker.cluster_id == running.killed().broker.cluster_id


def test_the_quorum_advances_with_what_is_written_to_the_metadata_log() -> None:
    broker = VirtualBroker()
    data = quorum.PartitionData(partition_index=0)
    request = quorum.DescribeQuorumRequest(
        topics=[quorum.TopicData(topic_name="__cluster_metadata", partitions=[data])]
    )

    def end() -> int:
        (told,) = broker.ask(request, 2).topics[0].partitions
        (voter,) = told.current_voters
        assert voter.replica_id == told.leader_id == broker.broker.leadership.node_id
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == broker.time.wall_ms()
        assert voter.log_end_offset == told.high_watermark
        return int(told.high_watermark)

    before = end()
    create(broker, TOPIC)
    after = end()
    assert after > before
    broker = broker.killed()
    assert end() >= after


def test_an_election_and_a_move_to_where_everything_is_change_nothing() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    produce(broker, TOPIC)
    before = broker.disk.used_bytes
    broker.ask(ElectLeadersRequest(election_type=1, topic_partitions=None), 2)
    directory = broker.ask(log_dirs.DescribeLogDirsRequest(topics=[]), 5).results[0].log_dir
    topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
    moved = broker.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=directory, topics=[topic])]), 2)
    assert moved.results[0].partitions[0].error_code == ErrorCode.NONE
    assert broker.disk.used_bytes == before
    assert produce(broker, TOPIC) is ErrorCode.NONE


def test_users_of_scram_are_kept_described_without_secrets_and_deleted() -> None:
    broker = VirtualBroker()
    changes = [
        scram.ScramCredentialUpsertion(
            name="alice", mechanism=mechanism, iterations=8192, salt=b"salt", salted_password=b"password"
        )
        for mechanism in (1, 2)
    ]
    describe = DescribeUserScramCredentialsRequest(users=None)
    for change in changes:
        assert broker.ask(scram.AlterUserScramCredentialsRequest(upsertions=[change]), 0).results[0].error_code == 0
    broker = broker.killed()
    (alice,) = broker.ask(describe, 0).results
    assert [(info.mechanism, info.iterations) for info in alice.credential_infos] == [(1, 8192), (2, 8192)]
    assert "salt" not in repr(alice)
    for change in changes:
        gone = scram.ScramCredentialDeletion(name="alice", mechanism=change.mechanism)
        assert broker.ask(scram.AlterUserScramCredentialsRequest(deletions=[gone]), 0).results[0].error_code == 0
    assert broker.ask(describe, 0).results == []


def test_the_only_broker_cannot_leave() -> None:
    broker = VirtualBroker()
    answer = broker.ask(UnregisterBrokerRequest(broker_id=broker.broker.leadership.node_id), 0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert create(broker, TOPIC) is ErrorCode.NONE


def test_telemetry_that_is_not_listed_costs_the_connection() -> None:
    with pytest.raises(ProtocolError, match="unknown API key 71"):
        VirtualBroker().send(GetTelemetrySubscriptionsRequest(), 0)


def test_authorized_operations_of_a_group_are_returned_only_on_request() -> None:
    broker = VirtualBroker()
    broker.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
    for asks in (False, True):
        request = DescribeGroupsRequest(groups=["group"], include_authorized_operations=asks)
        (group,) = broker.ask(request, 5).groups
        assert (group.authorized_operations > 0) is asks


def listed(broker: VirtualBroker, pattern: str | None) -> list[str]:
    answer = broker.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert answer.error_code == ErrorCode.NONE
    return [each.transactional_id for each in answer.transaction_states]


def test_transactions_are_listed_whose_whole_id_matches() -> None:
    broker = VirtualBroker()
    broker.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["orders-1"]), 4)
    for transactional_id in ("orders-1", "orders-2", "returns-1"):
        broker.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 5)
    everything = ["orders-1", "orders-2", "returns-1"]
    assert sorted(listed(broker, None)) == sorted(listed(broker, "")) == everything
    assert sorted(listed(broker, "orders-.*")) == ["orders-1", "orders-2"]
    assert listed(broker, "orders") == []
    assert sorted(listed(broker, ".*-1")) == ["orders-1", "returns-1"]


@given(
    st.lists(st.sampled_from(["a", "b", "[ab]", "(?:ab|b)", "."]), min_size=1, max_size=5).flatmap(
        lambda parts: st.lists(st.sampled_from(["", "*", "+", "?"]), min_size=len(parts), max_size=len(parts)).map(
            lambda ends: "".join(part + end for part, end in zip(parts, ends, strict=True))
        )
    ),
    st.text("abc", max_size=6),
)
def test_a_pattern_matches_what_it_matches_in_python(pattern: str, text: str) -> None:
    assert bool(matching(compiled_pattern(pattern), [text])) is (re.fullmatch(pattern, text) is not None)


def test_no_pattern_keeps_the_broker_busy() -> None:
    start = thread_time()
    assert not matching(compiled_pattern("(a+)+$"), ["a" * 5_000 + "b"])
    assert thread_time() - start < 1.0, "of the processor, whatever else is on it"


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "(a)\\1", "a" * (LONGEST_PATTERN + 1), "(((a{900}){900}){900})"])
def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        compiled_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(refused.value.message) < 1_000


def long_winded(structure: Structure, classes: Any) -> Any:
    """A message whose every text is as long as texts may be, and every array one long."""
    values: dict[str, Any] = {}
    for field in structure.fields:
        kind = field.type
        inner = kind.element if isinstance(kind, ArrayOf) else kind
        if isinstance(inner, Structure):
            value: Any = long_winded(inner, classes)
        elif isinstance(inner, Variable) and inner.name == "string":
            value = LONG
        elif isinstance(kind, ArrayOf):
            value = 0
        else:
            continue
        values[field.name] = [value] if isinstance(kind, ArrayOf) else value
    return getattr(classes, structure.name)(**values)


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api in API_TABLE.values()
        if api.key in ANSWERED_BY_THE_CLUSTER
        for version in range(api.minimum, api.maximum + 1)
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_longest_texts_are_answered(api: Api, version: int) -> None:
    declarations = import_module(f"oncelog.protocol.messages.{api.name}")
    request = getattr(declarations, f"{api.name}_request".upper())
    classes = import_module(f"oncelog.protocol.generated.{snake_case(request.name)}")
    broker = VirtualBroker()
    reply = broker.send(long_winded(request.structure, classes), version)
    broker.time.advance(60_000)
    assert type(reply.message).__name__ == request.name.replace("Request", "Response")
