"""TLS between a socket and a connection: what reaches whom, what is held, how it ends. Both sides are in memory."""

import ssl
from pathlib import Path

import pytest

from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.settings import load_config
from oncelog.broker.net.door import Door
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.security.principal import ANONYMOUS
from tests.clients.in_memory_connection import api_versions, correlation_ids, fetch, metadata, produce
from tests.clients.tls_connection import MIB, TlsClient, TlsServer, context
from tests.fakes.broker import VirtualBroker
from tests.support.security.certificates import Certificates


def test_requests_are_answered_over_tls(certificates: Certificates) -> None:
    client = TlsClient(TlsServer(certificates), context(certificates)).handshake()
    client.send(api_versions(1) + metadata(2, "t"))
    client.send(produce(3, "t") + produce(4, "t"))
    assert correlation_ids(client.received) == [1, 2, 3, 4]
    assert client.server.connection._peer.principal == ANONYMOUS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(certificates: Certificates, version: ssl.TLSVersion) -> None:
    chosen = context(certificates)
    chosen.minimum_version = chosen.maximum_version = version
    client = TlsClient(TlsServer(certificates), chosen).handshake()
    client.send(api_versions(1))
    assert correlation_ids(client.received) == [1]


def test_the_name_in_a_certificate_is_the_principal(certificates: Certificates) -> None:
    rules = r"ssl.principal.mapping.rules=RULE:^CN=(\w+).*$/$1/U"
    client = TlsClient(TlsServer(certificates, "required", rules), context(certificates, "alice")).handshake()
    client.send(api_versions(1))
    assert str(client.server.connection._peer.principal) == "User:ALICE"


def test_a_certificate_that_no_rule_names_is_not_admitted(certificates: Certificates) -> None:
    server = TlsServer(certificates, "required", "ssl.principal.mapping.rules=RULE:^CN=bob.*$/bob/")
    client = TlsClient(server, context(certificates, "alice")).handshake()
    assert client.transport.is_closed
    assert not client.received
    assert server.virtual.broker.metrics.logins_failed == 1


@pytest.mark.parametrize(("client_auth", "is_admitted"), [("none", True), ("requested", True), ("required", False)])
def test_a_client_without_a_certificate_is_anonymous_or_refused(
    certificates: Certificates, client_auth: str, is_admitted: bool
) -> None:
    client = TlsClient(TlsServer(certificates, client_auth), context(certificates)).handshake()
    if is_admitted:
        client.send(api_versions(1))
    assert correlation_ids(client.received) == ([1] if is_admitted else [])
    assert client.transport.is_closed is not is_admitted
    metrics = client.server.virtual.broker.metrics
    assert (metrics.logins, metrics.logins_failed) == ((1, 0) if is_admitted else (0, 1))


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_certificate_of_another_authority_is_refused(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory, client_auth: str
) -> None:
    others = Certificates(tmp_path_factory.mktemp("others"))
    forged = ssl.create_default_context(cafile=certificates.authority_path)
    forged.load_cert_chain(others.client("alice"))
    client = TlsClient(TlsServer(certificates, client_auth), forged).handshake()
    assert client.transport.is_closed
    (warning,) = [line for line in client.server.virtual.warnings if line["event"] == "connection.closed"]
    assert "certificate is not accepted" in warning["reason"]


@pytest.mark.parametrize("number", [0, 1])
def test_each_certificate_in_the_trust_store_is_trusted_also_of_several_with_the_same_name(
    certificates: Certificates, tmp_path: Path, number: int
) -> None:
    clients = [certificates.self_signed(f"same-{each}", "renewed") for each in range(2)]
    trusted = tmp_path / "trusted.pem"
    trusted.write_text("".join(Path(each).read_text() for each in clients))
    server = TlsServer(certificates, "required", f"ssl.truststore.location={trusted}")
    chosen = context(certificates)
    chosen.load_cert_chain(clients[number])
    client = TlsClient(server, chosen).handshake()
    client.send(api_versions(1))
    assert correlation_ids(client.received) == [1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (api_versions(1), "needs security.protocol=SSL"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP client"),
        (b"\x16\x03\x01\xff\xff" + bytes(100), "handshake failed"),
    ],
)
def test_bytes_that_are_no_tls_close_the_connection_with_the_reason(
    certificates: Certificates, data: bytes, reason: str
) -> None:
    server = TlsServer(certificates)
    transport = server.connect()
    assert transport.connection is not None
    transport.connection.data_received(data)
    assert transport.is_closed
    assert reason in server.virtual.warnings[-1]["reason"]


def test_a_handshake_that_is_not_finished_in_time_is_ended(certificates: Certificates) -> None:
    server = TlsServer(certificates, "none", "oncelog.authentication.timeout.ms=5000")
    silent, admitted = server.connect(), TlsClient(server, context(certificates)).handshake()
    server.virtual.time.advance(4_999)
    assert not silent.is_closed
    server.virtual.time.advance(1)
    assert silent.is_closed
    admitted.send(api_versions(1))
    assert correlation_ids(admitted.received) == [1]


def test_a_handshake_that_comes_byte_by_byte_has_no_more_time(certificates: Certificates) -> None:
    """A slow loris: something comes all the time."""
    server = TlsServer(certificates, "none", "oncelog.authentication.timeout.ms=5000")
    hello = ssl.MemoryBIO()
    tls = context(certificates).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    transport = server.connect()
    for byte in hello.read()[:49]:
        assert transport.connection is not None
        transport.connection.data_received(bytes((byte,)))
        server.virtual.time.advance(100)
    assert not transport.is_closed
    server.virtual.time.advance(100)
    assert transport.is_closed
    assert len(server.open) == 0


def test_what_a_client_does_not_read_is_all_counted_and_hardly_encrypted(certificates: Certificates) -> None:
    server = TlsServer(certificates)
    client = TlsClient(server, context(certificates)).handshake()
    client.send(metadata(1, "t"))
    client.send(b"".join(produce(number, "t", value_bytes=MIB // 2) for number in range(2, 8)))
    client.received.clear()
    client.transport.is_read = False
    client.send(fetch(9, "t"))
    held_bytes = server.open.answers.used_bytes
    assert held_bytes > 3 * MIB
    assert len(client.transport.unsent) < MIB // 2
    assert client.layer.get_write_buffer_size() == held_bytes
    client.transport.read()
    while client.layer.get_write_buffer_size():
        client.transport.read_some(1 << 30)
    client.exchange()
    assert correlation_ids(client.received) == [9]
    assert server.open.answers.used_bytes == 0


def test_a_client_that_says_goodbye_gets_the_answers_it_is_owed(certificates: Certificates) -> None:
    client = TlsClient(TlsServer(certificates), context(certificates)).handshake()
    client.send(metadata(1, "t"))
    client._tls.write(produce(2, "t"))
    client.close()
    assert correlation_ids(client.received) == [1, 2]
    assert client.transport.is_closed


def test_the_broker_says_goodbye_when_it_closes(certificates: Certificates) -> None:
    client = TlsClient(TlsServer(certificates), context(certificates)).handshake()
    client.server.connection.close()
    client.exchange()
    assert client.has_ended
    assert client.transport.is_closed


def test_a_connection_that_is_not_read_decrypts_nothing_more(certificates: Certificates) -> None:
    client = TlsClient(TlsServer(certificates), context(certificates)).handshake()
    client.send(metadata(1, "t"))
    client.layer.pause_reading()
    client.send(produce(2, "t"))
    assert correlation_ids(client.received) == [1]


def test_a_listener_without_a_key_does_not_open(certificates: Certificates) -> None:
    from oncelog.broker.config.settings import ConfigError

    config, _ = load_config(cli={"listeners": "SSL://127.0.0.1:0"})
    assert config.listeners[0].protocol is SecurityProtocol.SSL
    broker = VirtualBroker("listeners=SSL://127.0.0.1:0").broker
    with pytest.raises(ConfigError, match="listener SSL: TLS needs a key"):
        Door(broker, Dispatcher(broker), "SSL", SecurityProtocol.SSL)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_that_is_resumed_is_of_the_client_whose_certificate_was_verified(
    certificates: Certificates, version: ssl.TLSVersion
) -> None:
    server = TlsServer(certificates, "required")
    alices = context(certificates, "alice")
    alices.minimum_version = alices.maximum_version = version
    first = TlsClient(server, alices).handshake()
    first.send(api_versions(1))
    again = TlsClient(server, alices, session=first.session).handshake()
    again.send(api_versions(2))
    assert (again.is_resumed, correlation_ids(again.received)) == (True, [2])
    assert str(server.connection._peer.principal).startswith("User:CN=alice,")
    # Another broker, and this one after a certificate or an authority was replaced, which is another context.
    other = TlsClient(TlsServer(certificates, "required"), alices, session=first.session).handshake()
    assert not other.is_resumed
