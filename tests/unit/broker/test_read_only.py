"""A read-only broker (`oncelog.read.only`): what is stored stays as it is, whatever clients ask and however long."""

import pytest

from oncelog.broker.apis.descriptor import READS, Api
from oncelog.broker.faults.error_answers import error_names
from oncelog.broker.faults.rule import Action, Point, Rule
from oncelog.broker.handlers.read_only import REASON
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.clients.producer import Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import fill, read_committed
from tests.support.requests.listed_versions import EVERY_VERSION
from tests.support.requests.messages import filled_request

READ_ONLY = "oncelog.read.only=true"
CHANGES = [(api, version) for api, version in EVERY_VERSION if api.read_only is not READS]
WITH_NAMES = {
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"]),
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=["g"]),
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])]
    ),
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]
    ),
}
"""Requests whose lists are of plain values, which `filled_request` leaves empty."""
A_DAY_MS = 86_400_000


def files_of(broker: VirtualBroker) -> dict[str, bytes]:
    return {name: bytes(inode.data) for name, inode in broker.disk.files.items()}


def state_of(broker: VirtualBroker, transactional_id: str) -> str | None:
    statuses = broker.broker.transactions.current()
    return next(
        each.metadata.state.kafka_name for each in statuses if each.metadata.transactional_id == transactional_id
    )


@pytest.fixture(scope="module")
def filled() -> VirtualBroker:
    """The read-only successor of a broker with records."""
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    return broker.killed(READ_ONLY)


@pytest.mark.parametrize(("api", "version"), CHANGES, ids=lambda value: getattr(value, "name", str(value)))
def test_a_request_that_would_change_something_gets_an_error_that_no_client_retries(
    filled: VirtualBroker, api: Api, version: int
) -> None:
    before, log_ends = files_of(filled), {log: log.log_end_offset for log in filled.broker.logs.logs}
    reply = filled.send(WITH_NAMES.get(api.key, filled_request(api)), version)
    assert reply.is_there
    if api.key is ApiKey.PRODUCE:  # with acks=0, which has no response
        assert reply.is_closed
    else:
        errors = [ErrorCode[name] for name in error_names(reply.message)]
        assert errors and all(error.name.endswith("AUTHORIZATION_FAILED") for error in errors)
        assert not any(error.retriable for error in errors)
    assert filled.lines[-1] == REASON
    assert files_of(filled) == before
    assert {log: log.log_end_offset for log in filled.broker.logs.logs} == log_ends


def test_records_are_read_as_recovery_finds_them_and_recovery_writes_nothing() -> None:
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    before = read_committed(broker)
    looking = broker.killed(READ_ONLY)
    files = files_of(looking)
    assert read_committed(looking) == before
    looking.time.advance(A_DAY_MS)
    looking.broker.logs.close()
    assert files_of(looking) == files


def test_an_idempotent_producer_gets_the_error_that_it_may_not_write_anywhere(filled: VirtualBroker) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    assert filled.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_asking_for_a_topic_creates_none(filled: VirtualBroker) -> None:
    for version in (3, 12):
        request = MetadataRequest(topics=[MetadataRequestTopic(name="nowhere")], allow_auto_topic_creation=True)
        (answer,) = filled.ask(request, version).topics
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert filled.broker.topics.get("nowhere") is None


def test_transactions_stay_open_or_prepared_for_any_time() -> None:
    broker = broker_with_topic()
    opened, prepared = (Producer(broker, name).init() for name in ("open", "prepared"))
    for partition, producer in enumerate((opened, prepared)):
        producer.add(partition)
        assert producer.produce(partition) is ErrorCode.NONE
    broker.faults.plant(Rule(Point.MARKER, Action.HOLD, times=None))
    broker.send(EndTxnRequest(committed=True, **prepared.identity), 4)
    looking = broker.killed(READ_ONLY)
    looking.time.advance(A_DAY_MS)
    assert (state_of(looking, "open"), state_of(looking, "prepared")) == ("Ongoing", "PrepareCommit")
    assert [log_of(looking, partition).last_stable_offset for partition in (0, 1)] == [0, 0]
    again = looking.killed("oncelog.read.only=false")
    again.time.advance(A_DAY_MS)
    assert (state_of(again, "open"), state_of(again, "prepared")) == ("CompleteAbort", "CompleteCommit")
