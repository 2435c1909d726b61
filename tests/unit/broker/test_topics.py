"""Which partitions exist is what the metadata log says, whatever lies on the disk."""

from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import fetch_request, metadata_request
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker

TOPIC = "topic"


def create(broker: VirtualBroker, name: str = TOPIC) -> ErrorCode:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    return ErrorCode(broker.ask(request, 4).topics[0].error_code)


def delete(broker: VirtualBroker, name: str = TOPIC) -> ErrorCode:
    return ErrorCode(broker.ask(DeleteTopicsRequest(topic_names=[name]), 4).responses[0].error_code)


def produce(broker: VirtualBroker, value: bytes, name: str = TOPIC) -> int:
    batch = memoryview(encode_batch([Record(0, broker.time.wall_ms(), None, value)]))
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = broker.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 8)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE
    return int(partition.base_offset)


def test_files_of_an_unknown_partition_are_never_served_and_make_way_for_a_topic() -> None:
    broker = VirtualBroker()
    broker.disk.make_dir("foreign-0")
    broker.disk.open("foreign-0/00000000000000000000.log").append([b"somebody's bytes"])
    survivor = broker.killed()
    assert survivor.disk.list_dir("foreign-0") == ["00000000000000000000.log"]
    assert "'foreign-0'" in survivor.lines[-1]
    assert create(survivor, "foreign") == ErrorCode.NONE
    survivor = survivor.killed()  # before anything is written to it
    names = survivor.disk.list_dir("")
    assert "foreign-0" not in names
    (stray,) = [name for name in names if name.startswith("foreign-0.") and name.endswith("-stray")]
    assert survivor.disk.read_bytes(f"{stray}/00000000000000000000.log") == b"somebody's bytes"
    assert produce(survivor, b"new", "foreign") == 0


def test_a_topic_is_not_returned_before_its_creation_is_durable() -> None:
    broker = VirtualBroker()
    broker.broker.topics.create(TOPIC, 1)  # appended, not flushed: the loop has not turned
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    dispatcher = Dispatcher(broker.broker)
    header = encode_request_header(metadata_request.API_KEY, 8, 1, "client", flexible=False)
    frame = memoryview(b"".join((header, *metadata_request.encode(request, 8))))
    exchange = dispatcher.dispatch(frame, Peer("host", 1, "PLAINTEXT", ("host", 9092)))
    assert not exchange.done
    broker.time.settle()
    assert exchange.done


def test_a_fetch_of_a_client_that_is_gone_waits_no_more() -> None:
    broker = VirtualBroker()
    create(broker)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
    header = encode_request_header(fetch_request.API_KEY, 11, 1, "client", flexible=False)
    frame = memoryview(b"".join((header, *fetch_request.encode(request, 11))))
    peer = Peer("host", 1, "PLAINTEXT", ("host", 9092))
    before = broker.time.timer_count
    exchange = Dispatcher(broker.broker).dispatch(frame, peer)
    assert not exchange.done and broker.broker.purgatory.waiting_count == 1
    peer.disconnect()
    assert broker.broker.purgatory.waiting_count == 0
    assert broker.time.timer_count == before
