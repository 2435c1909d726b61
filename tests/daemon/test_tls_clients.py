"""Real clients over TLS, and the errors that they get when it does not fit."""

from collections.abc import Iterator

import pytest

from oncelog.testing import Broker
from tests.support.security.certificates import Certificates
from tests.support.security.secure_clients import ROUND_TRIPS, Security


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    settings = certificates.server_settings(client_auth="required")
    with Broker(config={**settings, "listeners": "SSL://localhost:0"}) as running:
        yield running


@pytest.mark.parametrize("client", ROUND_TRIPS)
def test_clients_write_and_read_with_a_certificate_each(
    broker: Broker, certificates: Certificates, client: str
) -> None:
    security = Security("SSL", certificates.authority_path, certificates.client("alice"))
    assert ROUND_TRIPS[client](broker.bootstrap_servers, security, client.encode()) == client.encode()


def test_a_large_record_goes_through_tls_both_ways(broker: Broker, certificates: Certificates) -> None:
    security = Security("SSL", certificates.authority_path, certificates.client("alice"))
    value = bytes(range(256)) * 3_900
    assert ROUND_TRIPS["confluent-kafka"](broker.bootstrap_servers, security, value) == value
