"""Topics with as many partitions as one request may ask for, and as many topics: made, changed and deleted while others
are served, and whole after every stop."""

from collections.abc import Callable

import pytest

from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Exchange
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from oncelog.protocol.generated.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog.protocol.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.message import Message
from tests.clients.administration import create, delete, partition_count, produce
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.support.requests.costs import CALLS_IN_20_MS, cost_of

MOST = 10_000
TOPICS = 500
FILES = 70
NO_SNAPSHOT = "metadata.log.max.record.bytes.between.snapshots=1000000000"
"""It is written in a thread, whose work counts as a turn here."""


def topics(count: int) -> list[CreatableTopic]:
    return [CreatableTopic(name=f"topic-{number}", num_partitions=1, replication_factor=1) for number in range(count)]


def wide(broker: VirtualBroker) -> None:
    create(broker, "wide", MOST)


def wide_and_open(broker: VirtualBroker) -> None:
    wide(broker)
    for index in range(MOST):
        broker.broker.topics.partition("wide", index)


def wide_with_offsets(broker: VirtualBroker) -> None:
    wide(broker)
    broker.ask(FindCoordinatorRequest(key="any"), 1)
    for start in range(0, MOST, 500):
        indexes = range(start, start + 500)
        partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes]
        named = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
        broker.ask(OffsetCommitRequest(group_id="group", generation_id_or_member_epoch=-1, topics=named), 8)


def nothing(broker: VirtualBroker) -> None:
    create(broker, "wide", 1)


def many(broker: VirtualBroker) -> None:
    broker.ask(CreateTopicsRequest(topics=topics(TOPICS)), 7)


def many_open(broker: VirtualBroker) -> None:
    many(broker)
    for number in range(TOPICS):
        broker.broker.topics.partition(f"topic-{number}", 0)


def altered(kind: int, name: str, key: str) -> Message:
    configs = [AlterableConfig(name=key, value="3600000")]
    return AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )


CREATED = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=MOST, replication_factor=1)])
LARGE: dict[str, tuple[Callable[[VirtualBroker], None], Message, int]] = {
    "one topic of 10,000 partitions": (nothing, CREATED, 7),
    "one topic, each partition assigned": (
        nothing,
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="new",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(MOST)
                    ],
                )
            ]
        ),
        7,
    ),
    "many topics": (nothing, CreateTopicsRequest(topics=topics(TOPICS)), 7),
    "many topics made on the way": (
        nothing,
        MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{number}") for number in range(TOPICS)]),
        12,
    ),
    "growth": (
        nothing,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="wide", count=MOST, assignments=None)]),
        3,
    ),
    "growth, each partition assigned": (
        nothing,
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name="wide", count=MOST, assignments=[CreatePartitionsAssignment(broker_ids=[1])] * (MOST - 1)
                )
            ]
        ),
        3,
    ),
    "deletion with open logs": (wide_and_open, DeleteTopicsRequest(topic_names=["wide"]), 5),
    "deletion with offsets of a group": (wide_with_offsets, DeleteTopicsRequest(topic_names=["wide"]), 5),
    "deletion of many topics": (
        many_open,
        DeleteTopicsRequest(topic_names=[f"topic-{number}" for number in range(TOPICS)]),
        5,
    ),
    "a setting of the topic": (wide_and_open, altered(2, "wide", "retention.ms"), 1),
    "a setting of all brokers": (many_open, altered(4, "", "log.retention.ms"), 1),
}
IN_ONE_TURN = ("one topic of 10,000 partitions", "growth", "a setting of the topic")
"""Decided, logged and applied at once: measured, 5 ms."""


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", LARGE)
def test_no_turn_of_the_largest_change_keeps_others_waiting_for_20_ms(name: str) -> None:
    prepare, request, version = LARGE[name]
    broker = VirtualBroker(NO_SNAPSHOT, with_faults=False)
    prepare(broker)
    broker.time.settle()
    measured = cost_of(broker, broker.frame(request, version))
    assert measured.closes is None
    assert measured.longest_turn_calls < CALLS_IN_20_MS
    assert measured.turn_count > 5 or name in IN_ONE_TURN


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["many topics", "deletion of many topics"])
def test_what_becomes_durable_in_one_round_is_answered_in_slices(name: str) -> None:
    """Thousands of changes wait for the same sync on a slow disk."""
    prepare, request, version = LARGE[name]
    broker = VirtualBroker(NO_SNAPSHOT, "oncelog.flush.loop.appends=0", with_faults=False)
    prepare(broker)
    held: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
    run_in_thread = broker.time.run_in_thread
    broker.time.run_in_thread = lambda function, done: held.append((function, done))  # type: ignore[method-assign]
    frame = broker.frame(request, version)
    first = cost_of(broker, frame)
    assert (first.answered_bytes, first.closes) == (0, None)
    broker.time.run_in_thread = run_in_thread  # type: ignore[method-assign]
    for function, done in held:
        run_in_thread(function, done)
    # Whatever comes next is measured with the turns that are left.
    rest = cost_of(broker, broker.frame(MetadataRequest(topics=[]), 12))
    assert rest.turn_count > 5
    assert max(first.longest_turn_calls, rest.longest_turn_calls) < CALLS_IN_20_MS


@pytest.mark.slow
def test_a_creation_is_in_force_in_the_turn_in_which_it_comes_however_many_partitions_it_has() -> None:
    broker = VirtualBroker()
    create(broker, "warm")
    reply = broker.start(CREATED, 7)
    topic = broker.broker.topics.get("new")
    assert topic is not None and topic.partition_count == MOST
    broker.time.settle()
    assert reply.message.topics[0].error_code == ErrorCode.NONE
    assert partition_count(broker.killed(), "new") == MOST


@pytest.mark.slow
def test_of_two_creations_of_one_name_exactly_one_wins() -> None:
    broker = VirtualBroker()
    replies = [broker.start(CREATED, 7) for _ in range(2)]
    broker.time.settle()
    codes = [ErrorCode(reply.message.topics[0].error_code) for reply in replies]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert partition_count(broker, "new") == MOST


# -- deletion


def with_files(*overrides: str) -> VirtualBroker:
    """Two topics, one of them with files that are deleted in several goes."""
    broker = VirtualBroker(*overrides)
    create(broker, "files", FILES)
    create(broker, "other")
    for index in range(FILES):
        assert produce(broker, "files", partition=index) is ErrorCode.NONE
    assert produce(broker, "other") is ErrorCode.NONE
    return broker


def left_of(broker: VirtualBroker) -> list[str]:
    return [name for name in broker.disk.list_dir("") if name.startswith("files")]


def dispatched(broker: VirtualBroker, request: Message, version: int, peer: Peer) -> Exchange:
    return broker.dispatcher.dispatch(broker.frame(request, version), peer)


DELETION = DeleteTopicsRequest(topic_names=["files"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("settings", [(), ("oncelog.flush.policy=os",), (NO_SNAPSHOT.replace("1000000000", "1"),)])
def test_a_stop_in_the_middle_of_a_deletion_is_made_good_by_the_next_start(settings: tuple[str, ...]) -> None:
    broker = with_files(*settings)
    broker.start(DELETION, 5)
    left = []
    while broker.time.turn():
        left.append(len(left_of(broker)))
        survivor = broker.killed()
        assert partition_count(survivor, "files") == 0
        assert left_of(survivor) == []
        assert create(survivor, "files") is ErrorCode.NONE
        assert produce(survivor, "files") is ErrorCode.NONE
        assert left_of(survivor.killed()) == ["files-0"]
    assert len({count for count in left if 0 < count < FILES}) > 1


def test_a_power_cut_in_the_middle_of_a_deletion_brings_no_record_back() -> None:
    broker = with_files()
    broker.start(DELETION, 5)
    seed = 0
    while broker.time.turn():
        if broker.broker.metadata.durable().done:
            seed += 1
            survivor = broker.crashed(seed)
            assert partition_count(survivor, "files") == 0
            assert create(survivor, "files") is ErrorCode.NONE
            assert produce(survivor, "files") is ErrorCode.NONE
            log = survivor.broker.topics.partition("files", 0)
            assert (log.log_end_offset, log.offline_error) == (1, None)
    assert seed > 5


def test_a_name_is_not_free_and_no_log_is_served_while_files_leave_their_places() -> None:
    broker = with_files()
    reply = broker.start(DELETION, 5)
    while "files-0" in left_of(broker):
        broker.time.turn()
    assert "files-69" in left_of(broker) and not reply.is_there
    again = broker.start(
        CreateTopicsRequest(topics=[CreatableTopic(name="files", num_partitions=1, replication_factor=1)]), 7
    )
    assert all(broker.broker.topics.find_partition("files", index) is None for index in range(FILES))
    broker.time.settle()
    assert again.message.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert reply.message.responses[0].error_code == ErrorCode.NONE
    assert left_of(broker) == []


def test_a_name_is_free_while_the_files_of_the_topic_that_had_it_are_still_being_deleted() -> None:
    broker = with_files()
    reply = broker.start(DELETION, 5)
    while not reply.is_there:
        broker.time.turn()
    assert len(left_of(broker)) > 1
    again = broker.start(
        CreateTopicsRequest(topics=[CreatableTopic(name="files", num_partitions=1, replication_factor=1)]), 7
    )
    log = broker.broker.topics.partition("files", 0)
    survivor = broker.killed(NO_SNAPSHOT.replace("1000000000", "1"))
    assert left_of(survivor) == []
    assert partition_count(survivor, "files") == 0, "the new topic was not committed yet"
    broker.time.settle()
    assert again.message.topics[0].error_code == ErrorCode.NONE
    assert produce(broker, "files") is ErrorCode.NONE
    assert (log.log_end_offset, left_of(broker)) == (1, ["files-0"])


def test_a_deletion_continues_when_its_client_has_disconnected() -> None:
    broker = with_files()
    peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))
    dispatched(broker, DELETION, 5, peer)
    while len(left_of(broker)) == FILES:
        broker.time.turn()
    peer.disconnect()
    broker.time.settle()
    assert left_of(broker) == []
    assert create(broker, "files") is ErrorCode.NONE


def test_files_that_cannot_be_deleted_are_deleted_by_the_next_start() -> None:
    broker = with_files("oncelog.flush.policy=os")
    broker.disk.lacks_descriptor = lambda path: path.startswith("files-7/")
    assert delete(broker, "files") is ErrorCode.NONE
    assert left_of(broker) == ["files-7"]
    assert any("files-7 cannot be deleted" in line for line in broker.lines)
    broker.disk.lacks_descriptor = lambda path: False
    assert left_of(broker.killed()) == []
