"""The connection without I/O: negotiation, the order of answers, and what ends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.values.errors import ConnectionLost, FatalError, KafkaError
from oncelog.client.wire.apis import API_VERSIONS, METADATA
from oncelog.client.wire.connection import Connection
from oncelog.client.wire.producer_apis import PRODUCE
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated import api_versions_response, metadata_response
from oncelog.protocol.generated.api_versions_response import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.metadata_response import MetadataResponse
from oncelog.protocol.generated.produce_request import ProduceRequest
from oncelog.protocol.headers import encode_response_header
from tests.support.requests.feeding import feed


def frame(*parts: bytes | memoryview) -> bytes:
    data = b"".join(parts)
    return len(data).to_bytes(4, "big") + data


def versions(correlation_id: int, version: int = 3, error_code: int = 0, epoch: int = 0, *apis: ApiVersion) -> bytes:
    response = ApiVersionsResponse(
        error_code=error_code,
        api_keys=apis or (ApiVersion(3, 0, 12), ApiVersion(18, 0, 4), ApiVersion(0, 0, 13)),
        finalized_features_epoch=epoch,
        finalized_features=[FinalizedFeatureKey("transaction.version", 2, 2)],
    )
    return frame(encode_response_header(correlation_id, False), *api_versions_response.encode(response, version))


def metadata(correlation_id: int, cluster_id: str) -> bytes:
    response = MetadataResponse(cluster_id=cluster_id)
    return frame(encode_response_header(correlation_id, True), *metadata_response.encode(response, 12))


def opened() -> Connection:
    connection = Connection("test")
    connection.open()
    feed(connection, versions(1))
    return connection


def test_versions_are_the_highest_that_both_sides_speak() -> None:
    connection = opened()
    assert connection.ready
    assert connection.version_of(METADATA) == 12
    assert connection.version_of(PRODUCE) == PRODUCE.maximum


def test_an_old_broker_is_asked_again_in_the_version_that_it_names() -> None:
    connection = Connection("test")
    connection.open()
    [again] = feed(connection, versions(1, 0, 35, 0, ApiVersion(18, 0, 2)))
    assert not connection.ready
    assert again[4:8] == bytes((0, API_VERSIONS.key, 0, 2))
    feed(connection, versions(2, 2))
    assert connection.ready


def test_an_api_that_the_broker_lacks_is_a_fatal_error() -> None:
    connection = Connection("test")
    connection.open()
    feed(connection, versions(1, 3, 0, 0, ApiVersion(3, 0, 12), ApiVersion(0, 14, 15)))
    with pytest.raises(FatalError, match="UNSUPPORTED_VERSION"):
        connection.send(PRODUCE, ProduceRequest(), None)


def test_features_count_only_from_epoch_0_on() -> None:
    assert opened().finalized_features == {"transaction.version": 2}
    connection = Connection("test")
    connection.open()
    feed(connection, versions(1, epoch=-1))
    assert connection.finalized_features == {}


@given(st.lists(st.integers(1, 40), max_size=60))
def test_each_request_gets_its_answer_in_order_however_the_bytes_are_cut(sizes: list[int]) -> None:
    connection = opened()
    heard: list[str | None] = []
    for _ in range(5):
        connection.send(METADATA, MetadataRequest(), lambda each, _: heard.append(each.cluster_id if each else None))
    stream = b"".join(metadata(number, f"cluster {number}") for number in range(2, 7))
    for size in [*sizes, len(stream)]:
        feed(connection, stream[:size])
        stream = stream[size:]
    assert heard == [f"cluster {number}" for number in range(2, 7)]
    assert not connection.pending


def test_an_answer_out_of_turn_ends_the_connection() -> None:
    connection = opened()
    connection.send(METADATA, MetadataRequest(), lambda *_: None)
    with pytest.raises(ProtocolError, match="correlation id 9 instead of 2"):
        feed(connection, metadata(9, "x"))


def test_an_answer_without_a_question_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="response without a request"):
        feed(opened(), metadata(2, "x"))


def test_closing_fails_every_pending_request_once() -> None:
    connection = opened()
    heard: list[KafkaError | None] = []
    for _ in range(3):
        connection.send(METADATA, MetadataRequest(), lambda _, error: heard.append(error))
    error = ConnectionLost("gone")
    connection.close(error)
    connection.close(error)
    assert heard == [error] * 3


def test_a_request_without_an_answer_leaves_nothing_pending() -> None:
    connection = opened()
    connection.send(PRODUCE, ProduceRequest(acks=0), None)
    assert not connection.pending


@pytest.mark.parametrize("size", [524_289, 100 << 20, 500 << 20])
def test_a_server_that_has_proved_nothing_cannot_fill_the_memory(size: int) -> None:
    """kafka-python#3014: any size that a server announced was read, before it had proved to be a broker."""
    connection = Connection("test")
    connection.open()
    with pytest.raises(ProtocolError, match=f"{size} bytes"):
        feed(connection, size.to_bytes(4, "big") + bytes(100))
    assert feed(opened(), size.to_bytes(4, "big") + bytes(100)) == []
