"""Details of frames, headers and versions."""

from importlib import import_module

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_delete_request import OffsetDeleteRequest
from oncelog.protocol.message import read_tag
from tests.conformance.details.asking import (
    TOPIC,
    Wire,
    batch,
    decode,
    fetch_request,
    produce_request,
    with_topic,
)
from tests.conformance.transcripts.framing_transcript import framed, header, request
from tests.fakes.broker import VirtualBroker
from tools import kafka_facts

E = ErrorCode
NO_TAGS = b"\0"


def create_topic(wire: Wire) -> None:
    topics = [MetadataRequestTopic(name=TOPIC)]
    wire.say(request(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 8))


def test_detail_01_a_version_of_api_versions_to_come_is_answered_as_version_0_with_error_35_and_its_range() -> None:
    wire = Wire()
    for version in (5, 99, 32_767):
        (answer,) = wire.say(framed(header(ApiKey.API_VERSIONS, version) + NO_TAGS + b"a body of another time"))
        message = decode("api_versions", 0, answer, 4)
        assert message.error_code == E.UNSUPPORTED_VERSION
        assert [(api.api_key, api.min_version, api.max_version) for api in message.api_keys] == [(18, 0, 4)]
    assert not wire.is_closed


def test_detail_02_the_header_of_an_api_versions_answer_never_has_tags() -> None:
    wire = Wire()
    for version in range(5):
        message = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        (answer,) = wire.say(request(message, version, correlation_id=7))
        assert answer[:4] == (7).to_bytes(4, "big")
        assert decode("api_versions", version, answer, 4).error_code == E.NONE


def test_detail_03_the_client_id_is_a_plain_string_in_flexible_headers_and_some_apis_never_have_those() -> None:
    wire = Wire()
    (answer,) = wire.say(framed(header(ApiKey.METADATA, 12, client=b"\0\3abc") + NO_TAGS + b"\1\1\0" + NO_TAGS))
    assert len(decode("metadata", 12, answer, 5).brokers) == 1
    (answer,) = wire.say(framed(header(ApiKey.SASL_HANDSHAKE, 1) + b"\0\5PLAIN"))
    assert decode("sasl_handshake", 1, answer, 4).error_code == E.ILLEGAL_SASL_STATE
    wire.say(request(FindCoordinatorRequest(key="group"), 1))
    (answer,) = wire.say(request(OffsetDeleteRequest(group_id="group"), 0))
    assert decode("offset_delete", 0, answer, 4).error_code == E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apache-kafka-java", E.NONE),
        ("a", E.NONE),
        ("4.3.0", E.NONE),
        ("", E.INVALID_REQUEST),
        ("-a", E.INVALID_REQUEST),
        ("a.", E.INVALID_REQUEST),
        ("a b", E.INVALID_REQUEST),
        ("a_b", E.INVALID_REQUEST),
        ("ä", E.INVALID_REQUEST),
        ("a\n", E.INVALID_REQUEST),
    ],
)
def test_detail_04_the_name_and_the_version_of_client_software_have_a_pattern(text: str, expected: E) -> None:
    broker = VirtualBroker()
    for name, version in ((text, "1"), ("a", text)):
        asked = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        assert broker.ask(asked, 3).error_code == expected
        assert broker.ask(asked, 2).error_code == E.NONE


def test_detail_05_unknown_tags_are_skipped_and_ours_come_in_order_without_defaults() -> None:
    wire = Wire()
    body = b"\1\1\0" + b"\2\x30\3abc\xb0\1\1z"
    (answer,) = wire.say(framed(header(ApiKey.METADATA, 12) + b"\1\x63\2hi" + body))
    assert len(decode("metadata", 12, answer, 5).brokers) == 1
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    (answer,) = wire.say(request(asked, 4))
    message = decode("api_versions", 4, answer, 4)
    assert message.finalized_features_epoch >= 0
    assert {"transaction.version", "group.version"} <= {feature.name for feature in message.finalized_features}
    # Behind the list of APIs (7 bytes each) and the throttle time: the tags, of which 3 is left out, being false.
    position = 4 + 2 + 1 + 7 * len(message.api_keys) + 4
    count, position, tags = answer[position], position + 1, []
    for _ in range(count):
        tag, _, position = read_tag(memoryview(answer), position)
        tags.append(tag)
    assert (tags, position) == ([0, 1, 2], len(answer))


@pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: str(api.name))
def test_detail_06_a_version_that_is_not_served_closes_the_connection(api: object) -> None:
    key, minimum, maximum = api.key, api.minimum, api.maximum  # type: ignore[attr-defined]
    if key is ApiKey.API_VERSIONS:
        return
    flexible_from = import_module(f"oncelog.protocol.generated.{api.name}_request").FLEXIBLE_FROM  # type: ignore[attr-defined]
    for version in (minimum - 1, maximum + 1):
        wire = Wire()
        tags = NO_TAGS if flexible_from is not None and version >= flexible_from else b""
        assert wire.say(framed(header(key, version) + tags + bytes(100))) == []
        assert wire.is_closed


def test_detail_07_requests_of_a_connection_take_effect_and_are_answered_in_their_order() -> None:
    """Five produces with their sequences in one piece; and what comes behind a fetch that waits, waits as well."""
    wire = Wire()
    create_topic(wire)
    frames = [
        request(produce_request(batch(producer_id=7, producer_epoch=0, base_sequence=number)), 8, correlation_id=number)
        for number in range(5)
    ]
    answers = wire.say(b"".join(frames))
    offsets = [decode("produce", 8, each, 4).responses[0].partition_responses[0].base_offset for each in answers]
    assert offsets == [0, 1, 2, 3, 4]
    assert [each[3] for each in answers] == [0, 1, 2, 3, 4]
    waiting = request(fetch_request(5, max_wait_ms=1_000), 11, correlation_id=21)
    assert wire.say(waiting + request(MetadataRequest(topics=[]), 8, correlation_id=22)) == []
    wire.server.virtual.time.advance(1_000)
    assert [each[3] for each in wire.take()] == [21, 22]


def test_detail_08_acks_0_is_never_answered_and_an_error_closes_the_connection() -> None:
    wire = Wire()
    create_topic(wire)
    after = request(MetadataRequest(topics=[]), 8, correlation_id=2)
    (answer,) = wire.say(request(produce_request(batch(), acks=0), 8) + after)
    assert answer[:4] == (2).to_bytes(4, "big")
    assert wire.server.virtual.broker.topics.partition(TOPIC, 0).log_end_offset == 1
    assert wire.say(request(produce_request(batch(), acks=0, topic="none"), 8) + after) == []
    assert wire.is_closed


def test_detail_25_the_throttle_time_is_there_in_the_versions_that_have_it_and_is_0() -> None:
    broker = with_topic()
    for version in range(3, 14):
        assert broker.ask(MetadataRequest(topics=[]), version).throttle_time_ms == 0
    for version in range(3, 13):
        assert broker.ask(produce_request(batch()), version).throttle_time_ms == 0
    for version in range(4, 13):
        assert broker.ask(fetch_request(), version).throttle_time_ms == 0
    wire = Wire()
    (first,) = wire.say(request(MetadataRequest(topics=[]), 2))
    (later,) = wire.say(request(MetadataRequest(topics=[]), 3))
    assert later[4:8] == bytes(4)
    assert later[8:] == first[4:]


def test_detail_29_idle_connections_live_ten_minutes_by_default() -> None:
    """Java's clients close theirs after nine."""
    wire = Wire()
    wire.server.virtual.time.advance(599_000)
    assert not wire.is_closed
    wire.server.virtual.time.advance(20_000)
    assert wire.is_closed


def test_detail_30_a_frame_has_1_byte_to_100_mib() -> None:
    limit = 100 * 1024 * 1024
    for length in (0, -1, -(2**31), limit + 1, 2**31 - 1):
        wire = Wire()
        wire.say(length.to_bytes(4, "big", signed=True))
        assert wire.is_closed
    wire = Wire()
    wire.say(limit.to_bytes(4, "big") + bytes(1_000))
    assert not wire.is_closed


def test_detail_33_telemetry_is_not_offered() -> None:
    """Clients that see it push their metrics every five minutes."""
    offered = {api.api_key for api in VirtualBroker().ask(ApiVersionsRequest(), 0).api_keys}
    assert not offered & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def test_detail_36_every_range_begins_where_kafkas_does() -> None:
    offered = {api.api_key: api for api in VirtualBroker().ask(ApiVersionsRequest(), 0).api_keys}
    assert offered[ApiKey.PRODUCE].min_version == 0
    for key, (minimum, _) in kafka_facts.KAFKA.items():
        if key in offered and key != ApiKey.PRODUCE:
            assert offered[key].min_version == minimum, key
    librdkafka = {ApiKey.OFFSET_FOR_LEADER_EPOCH: 2, ApiKey.SASL_HANDSHAKE: 0, ApiKey.FIND_COORDINATOR: 2}
    for key, version in librdkafka.items():
        assert offered[key].min_version <= version <= offered[key].max_version


def test_detail_37_the_cluster_and_the_node_are_the_same_after_a_restart() -> None:
    broker = VirtualBroker()
    before = broker.ask(MetadataRequest(topics=[]), 8)
    after = broker.killed().ask(MetadataRequest(topics=[]), 8)
    assert after.cluster_id == before.cluster_id
    assert [node.node_id for node in after.brokers] == [node.node_id for node in before.brokers]
    assert VirtualBroker(seed=1).ask(MetadataRequest(topics=[]), 8).cluster_id != before.cluster_id
