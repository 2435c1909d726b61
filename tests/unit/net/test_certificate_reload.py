"""Certificates and passwords are replaced while the broker runs, by Kafka's own API."""

import shutil
from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.in_memory_connection import api_versions, correlation_ids
from tests.clients.tls_connection import TlsClient, TlsServer, context
from tests.fakes.broker import VirtualBroker
from tests.support.security.certificates import Certificates

PREFIX = "listener.name.ssl."
BROKER, SET = 4, 0


def alter(
    virtual: VirtualBroker, node: str = "1", validate_only: bool = False, **values: str
) -> tuple[int, str | None]:
    configs = [
        AlterableConfig(name=PREFIX + key.replace("_", "."), config_operation=SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=node, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = virtual.ask(request, 1).responses
    return answer.error_code, answer.error_message


def serial(server: TlsServer, certificates: Certificates) -> str:
    """The serial number of the certificate that a new connection is shown."""
    client = TlsClient(server, context(certificates)).handshake()
    client.send(api_versions(1))
    assert correlation_ids(client.received) == [1]
    shown = client._tls.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


@pytest.fixture
def server(certificates: Certificates) -> TlsServer:
    return TlsServer(certificates)


def test_new_connections_get_the_new_certificate_and_open_ones_continue(
    server: TlsServer, certificates: Certificates
) -> None:
    before = serial(server, certificates)
    client = TlsClient(server, context(certificates)).handshake()
    connection = server.connection
    new = certificates.issued("renewed", "localhost", "127.0.0.1", "another.example")
    assert alter(server.virtual, ssl_keystore_location=new, ssl_keystore_type="PEM") == (0, None)
    assert serial(server, certificates) != before
    server.connection = connection
    client.send(api_versions(1))
    assert correlation_ids(client.received) == [1]


def test_the_same_name_with_new_content_is_read_again(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    shutil.copy(certificates.server_path, path)
    server = TlsServer(certificates, "none", f"{PREFIX}ssl.keystore.location={path}")
    before = serial(server, certificates)
    shutil.copy(certificates.issued("renewed", "localhost", "127.0.0.1"), path)
    assert serial(server, certificates) == before
    assert alter(server.virtual, ssl_keystore_location=str(path)) == (0, None)
    renewed = serial(server, certificates)
    assert renewed != before
    assert alter(server.virtual, ssl_keystore_location=str(path)) == (0, None)
    assert serial(server, certificates) == renewed


def test_a_change_outlives_a_restart(server: TlsServer, certificates: Certificates) -> None:
    new = certificates.issued("renewed", "localhost", "127.0.0.1")
    alter(server.virtual, ssl_keystore_location=new)
    again = server.virtual.killed()
    assert again.broker.config.get_of_listener("SSL", "ssl.keystore.location") == new


@pytest.mark.parametrize(
    ("identities", "common_name", "allowed", "problem"),
    [
        (("localhost", "127.0.0.1"), "another", "", "DistinguishedName does not match"),
        (("localhost",), None, "", "SubjectAltNames do not match"),
        (("localhost", "127.0.0.1"), "another", "ssl.allow.dn.changes=true", ""),
        (("localhost",), None, "ssl.allow.san.changes=true", ""),
    ],
)
def test_a_certificate_of_another_name_is_refused_unless_that_is_allowed(
    certificates: Certificates, identities: tuple[str, ...], common_name: str | None, allowed: str, problem: str
) -> None:
    server = TlsServer(certificates, "none", *([allowed] if allowed else []))
    before = serial(server, certificates)
    new = certificates.issued("other", *identities, common_name=common_name)
    code, text = alter(server.virtual, ssl_keystore_location=new)
    assert (code != 0) is bool(problem)
    assert problem in (text or "")
    assert (serial(server, certificates) == before) is bool(problem)


@pytest.mark.parametrize(
    "values",
    [
        {"ssl_keystore_location": "/not/there.pem"},
        {"ssl_keystore_type": "JKS"},
        {"ssl_truststore_location": "/not/there.pem"},
        {"ssl_keystore_password": "x"},
    ],
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(
    server: TlsServer, certificates: Certificates, values: dict[str, str]
) -> None:
    before = serial(server, certificates)
    code, text = alter(server.virtual, **values)
    assert code == ErrorCode.INVALID_REQUEST
    assert text is not None and "listener SSL" in text
    assert serial(server, certificates) == before
    assert server.virtual.broker.config.get_only_of_listener("SSL", next(iter(values)).replace("_", ".")) is None


def test_a_question_whether_it_could_be_changes_nothing(server: TlsServer, certificates: Certificates) -> None:
    before = serial(server, certificates)
    new = certificates.issued("renewed", "localhost", "127.0.0.1")
    assert alter(server.virtual, validate_only=True, ssl_keystore_location=new) == (0, None)
    assert serial(server, certificates) == before
    assert alter(server.virtual, validate_only=True, ssl_keystore_location="/not/there.pem")[0] != 0


def test_client_certificates_may_be_required_from_now_on(server: TlsServer, certificates: Certificates) -> None:
    assert alter(server.virtual, ssl_client_auth="required") == (0, None)
    assert TlsClient(server, context(certificates)).handshake().transport.is_closed
    admitted = TlsClient(server, context(certificates, "alice")).handshake()
    admitted.send(api_versions(1))
    assert correlation_ids(admitted.received) == [1]


def test_files_that_are_gone_stop_no_other_change(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    shutil.copy(certificates.server_path, path)
    server = TlsServer(certificates, "none", f"{PREFIX}ssl.keystore.location={path}")
    path.unlink()
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[AlterableConfig(name="log.retention.ms", config_operation=SET, value="60000")],
    )
    (answer,) = server.virtual.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0
    assert serial(server, certificates)
