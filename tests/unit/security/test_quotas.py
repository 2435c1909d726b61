"""Quotas in virtual time: whose counts, and that a client above its quota waits while others do not."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.config.settings import load_config
from oncelog.broker.requests.throttling import quotas_of
from oncelog.broker.security.quotas import PRODUCER_BYTE_RATE, Quotas
from oncelog.protocol.generated import fetch_response, produce_response
from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog.protocol.generated.client_quota_record import ClientQuotaRecord
from oncelog.protocol.generated.client_quota_record import EntityData as RecordedEntity
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from tests.clients.in_memory_connection import (
    Server,
    Transport,
    api_versions,
    correlation_ids,
    fetch,
    metadata,
    produce,
)
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime

Entity = Mapping[str, str | None]


def limited(virtual: VirtualBroker, entity: Entity, **quotas: float) -> None:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    ops = [OpData(key=key, value=value) for key, value in quotas.items()]
    answer = virtual.ask(AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)]), 1)
    assert [entry.error_code for entry in answer.entries] == [0]


def latest(transport: Transport) -> memoryview:
    """The body of the last response."""
    sent, position = memoryview(bytes(transport.sent)), 0
    while True:
        end = position + 4 + int.from_bytes(sent[position : position + 4], "big")
        if end == len(sent):
            return sent[position + 8 :]
        position = end


# --- whose quota counts -----------------------------------------------------------------------------------------------

_NAMES = ("a", "b", None)
_entities = st.lists(
    st.tuples(st.sampled_from(("-", *_NAMES)), st.sampled_from(("-", *_NAMES))).filter(lambda pair: pair != ("-", "-")),
    unique=True,
)


@given(_entities)
def test_the_first_of_kafkas_eight_levels_that_has_a_quota_counts(
    entities: list[tuple[str | None, str | None]],
) -> None:
    state, (config, _) = SecurityState(), load_config()
    values = {}
    for value, (user, client_id) in enumerate(entities, 1):
        parts = [("user", user), ("client-id", client_id)]
        named = [RecordedEntity(entity_type=kind, entity_name=name) for kind, name in parts if name != "-"]
        state.replay(ClientQuotaRecord(entity=named, key=PRODUCER_BYTE_RATE, value=float(value)), 0)
        values[user, client_id] = float(value)
    found = Quotas(state, VirtualTime(), config).limit(PRODUCER_BYTE_RATE, "a", "b")
    levels = [("a", "b"), ("a", None), ("a", "-"), (None, "b"), (None, None), (None, "-"), ("-", "b"), ("-", None)]
    level = next((each for each in levels if each in values), None)
    if level is None:
        assert found is None
    else:
        user, client_id = level
        assert found == (values[level], "" if user == "-" else "a", "" if client_id == "-" else "b")


def test_a_change_counts_at_once_and_after_a_start() -> None:
    virtual = VirtualBroker()
    quotas = quotas_of(virtual.broker)
    assert quotas.limit(PRODUCER_BYTE_RATE, "u", "c") is None
    limited(virtual, {"user": "u"}, producer_byte_rate=5.0)
    assert quotas.limit(PRODUCER_BYTE_RATE, "u", "c") == (5.0, "u", "")
    again = virtual.killed().broker
    assert again.quotas is not None
    assert again.quotas.limit(PRODUCER_BYTE_RATE, "u", "c") == (5.0, "u", "")


def test_a_client_that_has_used_nothing_lately_is_forgotten() -> None:
    virtual = VirtualBroker()
    limited(virtual, {"client_id": None}, producer_byte_rate=1_000.0)
    quotas = quotas_of(virtual.broker)
    for number in range(20_000):
        limit = quotas.limit(PRODUCER_BYTE_RATE, "u", f"client {number}")
        assert limit is not None
        assert quotas.use(PRODUCER_BYTE_RATE, limit, 10) == 0
        virtual.let_pass(10)
    assert quotas.known_count <= 2_000


# --- who is above waits -----------------------------------------------------------------------------------------------


def test_a_client_that_produces_too_much_has_its_answer_at_once_and_waits_while_others_do_not() -> None:
    server = Server()
    limited(server.virtual, {"client_id": "test"}, producer_byte_rate=1_000.0)
    above, other = server.connect(), server.connect()
    server.send(above, metadata(1, "t"))
    server.settle()
    server.send(above, produce(2, "t", value_bytes=19_900) + api_versions(3))
    server.settle()
    assert correlation_ids(above.sent) == [1, 2]
    response, _ = produce_response.decode(latest(above), 8)
    assert 9_900 < response.throttle_time_ms < 10_100
    assert not above.is_reading
    server.send(other, api_versions(7))
    server.settle()
    assert correlation_ids(other.sent) == [7]
    server.virtual.let_pass(response.throttle_time_ms - 1)
    assert correlation_ids(above.sent) == [1, 2]
    server.virtual.let_pass(2)
    server.settle()
    assert correlation_ids(above.sent) == [1, 2, 3]
    assert above.is_reading


def test_a_client_that_always_sends_has_the_rate_of_its_quota_within_five_percent() -> None:
    server = Server()
    limited(server.virtual, {"client_id": "test"}, producer_byte_rate=10_000.0)
    producer = server.connect()
    server.send(producer, metadata(1, "t"))
    server.settle()
    sent_bytes, began_ms = 0, server.virtual.time.monotonic_ms()
    while server.virtual.time.monotonic_ms() - began_ms < 100_000:
        if producer.is_reading:
            server.send(producer, produce(2, "t", value_bytes=5_000))
            server.settle()
            sent_bytes += 5_070
        else:
            server.virtual.let_pass(10)
    assert sent_bytes - 100_000 == pytest.approx(10_000 * 100, rel=0.05), "besides what it has at once"


def test_a_client_that_always_reads_has_the_rate_of_its_quota_within_five_percent() -> None:
    server = Server()
    consumer = server.connect()
    server.send(consumer, metadata(1, "t"))
    server.settle()
    server.send(consumer, produce(2, "t", value_bytes=5_000))
    server.settle()
    limited(server.virtual, {"user": "ANONYMOUS"}, consumer_byte_rate=10_000.0)
    read_bytes, began_ms = 0, server.virtual.time.monotonic_ms()
    while server.virtual.time.monotonic_ms() - began_ms < 100_000:
        if consumer.is_reading:
            server.send(consumer, fetch(3, "t"))
            server.settle()
            read_bytes += len(latest(consumer))
            consumer.sent.clear()
        else:
            server.virtual.let_pass(10)
    assert read_bytes - 100_000 == pytest.approx(10_000 * 100, rel=0.05), "besides what it has at once"


def test_a_waiting_client_may_disconnect() -> None:
    server = Server()
    limited(server.virtual, {"client_id": "test"}, producer_byte_rate=1_000.0)
    above = server.connect()
    server.send(above, metadata(1, "t"))
    server.settle()
    server.send(above, produce(2, "t", value_bytes=19_900))
    server.settle()
    above.close()
    server.virtual.let_pass(20_000)
    assert len(server.open) == 0


def test_a_fetch_has_no_more_than_ten_seconds_allow_for_and_what_it_has_counts() -> None:
    server = Server()
    consumer = server.connect()
    server.send(consumer, metadata(1, "t"))
    server.settle()
    for number in range(2, 12):
        server.send(consumer, produce(number, "t", value_bytes=10_000))
        server.settle()
    limited(server.virtual, {"user": "ANONYMOUS"}, consumer_byte_rate=3_000.0)
    waits = []
    for offset in (0, 3):
        server.send(consumer, fetch(20 + offset, "t", offset=offset))
        server.settle()
        response, _ = fetch_response.decode(latest(consumer), 11)
        assert 20_000 < len(response.responses[0].partitions[0].records or b"") <= 30_000
        waits.append(response.throttle_time_ms)
    assert waits[0] == 0
    assert waits[1] == pytest.approx((2 * 20_140 - 30_000) / 3, rel=0.01), "two whole batches each time"


def test_the_time_of_requests_counts_as_percent_of_the_one_thread() -> None:
    server = Server()
    now_ns = 0

    def timer_ns() -> int:
        nonlocal now_ns
        now_ns += 50_000_000
        return now_ns

    server.virtual.broker.request_observer.timer_ns = timer_ns
    limited(server.virtual, {"user": None}, request_percentage=1.0)
    busy = server.connect()
    answered = 0
    for number in range(1, 40):
        if busy.is_reading:
            server.send(busy, api_versions(number))
            server.settle()
            answered += 1
    assert answered == 3, "ten percent of a second at once, five each: the third is above"
    server.virtual.let_pass(999)
    assert not busy.is_reading
    server.virtual.let_pass(1)
    assert busy.is_reading, "for the time of its requests a client waits a second at most"


def test_an_address_has_as_many_new_connections_as_its_quota_allows() -> None:
    virtual = VirtualBroker()
    limited(virtual, {"ip": None}, connection_creation_rate=1)
    limited(virtual, {"ip": "10.0.0.7"}, connection_creation_rate=2)
    quotas = quotas_of(virtual.broker)
    assert [quotas.connect("10.0.0.9") > 0 for _ in range(12)] == [False] * 10 + [True] * 2
    assert [quotas.connect("10.0.0.7") > 0 for _ in range(22)] == [False] * 20 + [True] * 2
    virtual.let_pass(1_000)
    assert [quotas.connect("10.0.0.9") > 0 for _ in range(2)] == [False, True]


@pytest.mark.parametrize("limit", [float("inf"), 1e18])
def test_a_quota_that_is_never_reached_delays_no_client(limit: float) -> None:
    virtual = VirtualBroker()
    limited(virtual, {"user": None}, request_percentage=limit)
    for _ in range(100):
        assert virtual.ask(MetadataRequest(topics=[]), 8).throttle_time_ms == 0


def test_a_client_that_disconnects_while_it_waits_leaves_nothing_behind() -> None:
    """Connections above a quota, one after the other, would otherwise fill the memory: each waits for days."""
    server = Server()
    limited(server.virtual, {"client_id": "test"}, producer_byte_rate=1.0)
    server.send(first := server.connect(), metadata(1, "t"))
    server.settle()
    timers = server.virtual.time.timer_count
    for number in range(2, 5):
        above = server.connect()
        server.send(above, produce(number, "t", value_bytes=1_000))
        server.settle()
        assert not above.is_reading
        above.close()
        server.settle()
    assert server.virtual.time.timer_count <= timers
    first.close()


def test_a_rate_that_never_ends_a_wait_is_the_longest_wait() -> None:
    virtual = VirtualBroker()
    limited(virtual, {"user": None}, controller_mutation_rate=5e-324, request_percentage=5e-324)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "ab"]
    for _ in range(2):
        answer = virtual.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7)
    assert answer.throttle_time_ms == 2**31 - 1


def test_ids_of_clients_are_not_kept_however_long_they_are() -> None:
    virtual = VirtualBroker()
    limited(virtual, {"client_id": None}, request_percentage=50.0)
    for number in range(100):
        virtual.send(MetadataRequest(topics=[]), 8, client_id=f"{number}" + "x" * 30_000)
    quotas = quotas_of(virtual.broker)
    kept = [*quotas._limits, *quotas._buckets]
    assert sum(len(client_id) for _, _, client_id in kept) < 100 * 1_000


# --- when a change is answered ----------------------------------------------------------------------------------------


def test_a_repeated_change_is_not_answered_before_the_first_is_durable() -> None:
    """A client whose first request timed out must get no answer that a kill can still undo."""
    virtual = VirtualBroker()
    entity = [EntityData(entity_type="client-id", entity_name="a")]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[OpData(PRODUCER_BYTE_RATE, 1_000.0)])])
    replies = [virtual.start(request, 1) for _ in range(2)]
    assert not any(reply.is_there for reply in replies)
    virtual.time.settle()
    assert [entry.error_code for reply in replies for entry in reply.message.entries] == [0, 0]
