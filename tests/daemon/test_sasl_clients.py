"""Real clients log in over TLS, by each mechanism."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from oncelog.client import AuthenticationFailed
from oncelog.client.blocking.clients import Admin
from oncelog.pipeline.options import parse, reach_of
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_S
from tests.support.security.certificates import Certificates
from tests.support.security.secure_clients import ROUND_TRIPS, Security
from tests.support.security.tokens import Issuer

PASSWORD = 'pass;word="\\ with signs'
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required\n  user_alice="{}";'.format(
    PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(now_s=int(time.time()))


@pytest.fixture(scope="module")
def broker(certificates: Certificates, issuer: Issuer) -> Iterator[Broker]:
    settings = {
        **certificates.server_settings(),
        "listeners": "SASL_SSL://localhost:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write_jwks(certificates.directory / "keys.json"),
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    with Broker(config=settings) as running:
        security = Security("SASL_SSL", certificates.authority_path, "", "PLAIN", "alice", PASSWORD)
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **security.for_librdkafka()})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # Kafka takes one at a time
            made = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode())
            admin.alter_user_scram_credentials([made])["alice"].result(PATIENCE_S)
        yield running


@pytest.mark.parametrize("client", ROUND_TRIPS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_clients_log_in_write_and_read(
    broker: Broker, certificates: Certificates, issuer: Issuer, client: str, mechanism: str
) -> None:
    token = issuer.token() if mechanism == "OAUTHBEARER" else ""
    security = Security("SASL_SSL", certificates.authority_path, "", mechanism, "alice", PASSWORD, token)
    assert ROUND_TRIPS[client](broker.bootstrap_servers, security, client.encode()) == client.encode()


def test_sparks_options_log_in_with_the_token_of_a_file(
    broker: Broker, certificates: Certificates, issuer: Issuer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(issuer.token())
    options = parse(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.location": str(certificates.authority_path),
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        },
        "write",
    )
    with Admin(options.bootstrap_servers, **reach_of(options.client)) as admin:
        admin.list_topics()
    path.write_text("none")
    with (
        pytest.raises(AuthenticationFailed, match="the token is not accepted"),
        Admin(options.bootstrap_servers, **reach_of(options.client)) as admin,
    ):
        admin.list_topics()
