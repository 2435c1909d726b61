"""Order, back-pressure and the end of one connection, in virtual time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clients.in_memory_connection import (
    Server,
    Transport,
    api_versions,
    correlation_ids,
    fetch,
    metadata,
    produce,
)

MIB = 1 << 20
BAD_LENGTH = b"\xff\xff\xff\xff"
UNKNOWN_API = b"\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x09\xff\xff"


def with_topic(*overrides: str) -> Server:
    server = Server(*overrides)
    transport = server.connect()
    server.send(transport, metadata(1, "t"))
    server.settle()
    transport.close()
    return server


def told(server: Server, transport: Transport) -> list[int]:
    server.settle()
    return correlation_ids(transport.sent)


@given(st.sampled_from([BAD_LENGTH, UNKNOWN_API]), st.lists(st.integers(0, 900), max_size=5), st.booleans())
def test_what_was_asked_before_bad_bytes_is_answered_however_the_stream_was_cut(
    bad: bytes, cuts: list[int], at_once: bool
) -> None:
    server = with_topic()
    transport = server.connect()
    stream = produce(1, "t") + produce(2, "t") + api_versions(3) + produce(4, "t") + bad + api_versions(6)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        if transport.is_closed or not transport.is_reading:
            server.settle()
        if not transport.is_closed and transport.is_reading:
            server.send(transport, stream[start:end])
            if not at_once:
                server.settle()
    assert told(server, transport) == [1, 2, 3, 4]
    assert transport.is_closed


def test_a_client_that_closes_its_side_gets_its_answers() -> None:
    server = with_topic()
    transport = server.connect()
    server.send(transport, produce(1, "t") + produce(2, "t"))
    assert transport.connection is not None
    assert transport.connection.eof_received() is True
    assert not transport.is_closed
    assert told(server, transport) == [1, 2]
    assert transport.is_closed


def test_a_client_that_goes_while_its_fetch_waits_is_let_go_at_once() -> None:
    server = with_topic()
    transport = server.connect()
    server.send(transport, fetch(1, "t", max_wait_ms=60_000))
    server.settle()
    assert server.virtual.broker.purgatory.waiting_count == 1
    assert transport.connection is not None
    assert transport.connection.eof_received() is False
    transport.close()
    assert server.virtual.broker.purgatory.waiting_count == 0


def test_one_connection_does_not_keep_the_loop_to_itself() -> None:
    """A thousand requests in one piece, and another connection's one is answered in between."""
    server = Server()
    greedy, modest = server.connect(), server.connect()
    server.send(greedy, b"".join(api_versions(number) for number in range(1_000)))
    server.send(modest, api_versions(1))
    assert len(correlation_ids(greedy.sent)) < 1_000
    assert correlation_ids(modest.sent) == [1]
    assert told(server, greedy) == list(range(1_000))


def test_large_answers_end_a_turn_as_well() -> None:
    """Fifty answers of 200 kB to one client, and another one's request does not wait for all of them."""
    server = with_topic()
    writer, greedy, modest = (server.connect() for _ in range(3))
    server.send(writer, produce(1, "t", value_bytes=200_000))
    server.settle()
    server.send(greedy, b"".join(fetch(number, "t") for number in range(50)))
    server.send(modest, api_versions(1))
    assert len(correlation_ids(greedy.sent)) == 1
    assert correlation_ids(modest.sent) == [1]
    assert told(server, greedy) == list(range(50))


def test_a_client_that_does_not_read_has_nothing_started_and_is_not_read_from() -> None:
    server = with_topic()
    transport = server.connect(is_read=False)
    server.send(transport, b"".join(api_versions(number) for number in range(10_000)))
    server.settle()
    assert len(transport.unsent) < 2 * 65_536 + 1_000
    assert not transport.is_reading
    transport.read()
    assert told(server, transport) == list(range(10_000))
    assert transport.is_reading


def test_unread_answers_make_later_ones_smaller_and_count_until_they_are_sent() -> None:
    server = with_topic("oncelog.unread.answers.max.bytes=4194304", "message.max.bytes=1048588")
    writer = server.connect()
    for number in range(20):
        server.send(writer, produce(number, "t", value_bytes=MIB // 2))
        server.settle()
    silent = [server.connect(is_read=False) for _ in range(20)]
    for transport in silent:
        server.send(transport, fetch(1, "t"))
        server.settle()
    sizes = [len(transport.unsent) for transport in silent]
    assert sizes[0] > 1.4 * MIB
    assert sizes[-1] <= MIB + 1_000
    assert server.open.answers.used_bytes == sum(sizes)
    for transport in silent:
        transport.read()
        transport.close()
    assert server.open.answers.used_bytes == 0
    attentive = server.connect()
    server.send(attentive, fetch(1, "t"))
    assert len(attentive.sent) > 1.4 * MIB


def test_answer_counts_in_full_until_its_last_byte_is_sent_and_all_together_stay_below_the_limit() -> None:
    """A transport frees no part of a buffer: clients that take all but a little would hold many times the limit."""
    server = with_topic(
        "oncelog.unread.answers.max.bytes=4194304", "socket.request.max.bytes=2097152", "message.max.bytes=1048588"
    )
    writer = server.connect()
    for number in range(4):
        server.send(writer, produce(number, "t", value_bytes=MIB // 2))
        server.settle()
    clients, most_kept_bytes = [], 0
    for _ in range(100):
        transport = server.connect(is_read=False)
        clients.append((transport, 0))
        server.send(transport, fetch(1, "t"))
        server.settle()
        clients[-1] = (transport, len(transport.unsent))
        transport.read_some(len(transport.unsent) - 1_000)
        kept_bytes = sum(size for each, size in clients if not each.is_closed)
        most_kept_bytes = max(most_kept_bytes, kept_bytes)
        assert server.open.answers.used_bytes == kept_bytes <= 6 * MIB
    assert most_kept_bytes > 4 * MIB
    for transport, _ in clients:
        transport.read()
    assert server.open.answers.used_bytes == 0


@pytest.mark.interpreted
def test_memory_goes_back_to_the_system_once_no_answer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    monkeypatch.setattr("oncelog.broker.net.open_connections.return_memory", lambda: returned.append(1))
    monkeypatch.setattr("oncelog.broker.net.open_connections._RETURNED_BYTES", MIB)
    server = with_topic("message.max.bytes=2097152")
    writer = server.connect()
    server.send(writer, produce(1, "t", value_bytes=MIB))
    server.settle()
    silent = server.connect(is_read=False)
    server.send(silent, fetch(1, "t"))
    server.virtual.time.advance(5_000)
    assert returned == []
    silent.read()
    server.virtual.time.advance(5_000)
    assert returned == [1]
    server.send(silent, api_versions(2))
    server.virtual.time.advance(5_000)
    assert returned == [1]


def test_when_the_broker_stops_what_was_appended_is_answered_and_nothing_more_begins() -> None:
    server = with_topic("queued.max.requests=3")
    log = server.virtual.broker.topics.partition("t", 0)
    producing, waiting = server.connect(), server.connect()
    server.send(producing, b"".join(produce(number, "t") for number in range(5)))
    server.send(waiting, fetch(1, "t", offset=3, max_wait_ms=60_000))
    for connection in server.open.all():
        connection.finish()
    assert waiting.is_eof_sent
    assert not producing.is_closed
    assert told(server, producing) == [0, 1, 2]
    assert producing.is_eof_sent
    assert log.log_end_offset == 3


def test_a_client_that_sends_while_the_broker_stops_is_read_until_it_has_closed() -> None:
    server = with_topic()
    log = server.virtual.broker.topics.partition("t", 0)
    transports = sending, silent, idle = [server.connect() for _ in range(3)]
    server.virtual.time.advance(10_000)
    for transport in (sending, silent):
        server.send(transport, produce(1, "t"))
        assert told(server, transport) == [1]
    for connection in server.open.all():
        connection.finish()
    assert [each.is_closed for each in transports] == [False, False, True]
    assert idle.is_closed
    server.send(sending, produce(2, "t") + b"half a request")
    assert sending.connection is not None
    assert sending.connection.eof_received() is False, "the transport closes"
    assert not silent.is_closed
    server.virtual.time.advance(1_000)
    assert silent.is_closed
    assert log.log_end_offset == 2


def test_at_most_so_many_requests_wait_for_their_answers() -> None:
    server = with_topic("queued.max.requests=3")
    transport = server.connect()
    log = server.virtual.broker.topics.partition("t", 0)
    server.send(transport, b"".join(produce(number, "t") for number in range(8)))
    assert log.log_end_offset == 3
    assert not transport.is_reading
    assert told(server, transport) == list(range(8))
    assert log.log_end_offset == 8


def test_a_large_request_takes_memory_as_it_comes_and_waits_for_larger_ones() -> None:
    server = with_topic("queued.max.request.bytes=4194304")
    start = (60 * MIB).to_bytes(4, "big") + b"\x00\x00\x00\x08" + b"\x00" * 100
    clients = [server.connect() for _ in range(30)]
    for _ in range(8):
        for transport in clients:
            if transport.is_reading:
                server.send(transport, start)
                start = bytes(MIB)
    requests = server.open.requests
    assert requests.used_bytes < 4 * MIB + 30 * 2 * MIB
    assert sum(transport.is_reading for transport in clients) < 10
    small = server.connect()
    server.send(small, api_versions(1))
    assert told(server, small) == [1]
    for transport in clients:
        transport.abort()
    assert requests.used_bytes == 0


def test_an_idle_connection_is_closed_at_its_time_and_no_other() -> None:
    server = with_topic("connections.max.idle.ms=10000")
    idle, busy, waiting = (server.connect() for _ in range(3))
    server.send(waiting, fetch(1, "t", max_wait_ms=25_000))
    for passed in range(1, 13):
        server.virtual.time.advance(1_000)
        assert idle.is_closed is (passed >= 11)
        if passed % 5 == 0:
            server.send(busy, api_versions(passed))
    assert not busy.is_closed
    assert not waiting.is_closed
    server.virtual.time.advance(14_000)
    assert correlation_ids(waiting.sent) == [1]
    assert not waiting.is_closed, "its time begins with the answer"
    server.virtual.time.advance(11_000)
    assert waiting.is_closed
    assert server.virtual.broker.metrics.connections_closed_idle == 3
    assert len(server.open) == 0


def test_a_client_that_never_reads_is_closed_like_an_idle_one() -> None:
    server = with_topic("connections.max.idle.ms=10000")
    transport = server.connect(is_read=False)
    server.send(transport, b"".join(api_versions(number) for number in range(10_000)))
    server.virtual.time.advance(12_000)
    assert transport.is_aborted
    assert server.open.answers.used_bytes == 0


def test_a_client_that_does_not_read_the_last_answer_of_a_closed_connection_is_cut_off() -> None:
    server = Server("connections.max.idle.ms=-1")
    transport = server.connect(is_read=False)
    server.send(transport, api_versions(1) + BAD_LENGTH)
    assert transport.is_closed
    assert not transport.is_aborted
    server.virtual.time.advance(30_000)
    assert transport.is_aborted


def test_without_connections_nothing_is_looked_after() -> None:
    server = Server()
    before = server.virtual.time.timer_count
    transports = [server.connect() for _ in range(100)]
    assert server.virtual.time.timer_count == before + 1
    for transport in transports:
        transport.close()
    server.virtual.time.advance(60_000)
    assert server.virtual.time.timer_count <= before
