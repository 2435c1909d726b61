"""The HTTP ports of a real daemon with tokens and TLS, and those who ask them: Python, the command line, a monitor."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from oncelog.faults import FaultClient, FaultsRefused
from oncelog.sync import Admin
from oncelog.witness import WitnessUnavailable, ask_witness
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.security.certificates import Certificates

ADMIN_TOKEN, METRICS_TOKEN = "admin-0123456789abcdef", "metrics-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Secured:
    daemon: Daemon
    certificates: Certificates
    metrics_token_file: str

    def address(self, name: str) -> str:
        return self.daemon.address_of(name)

    @property
    def metrics(self) -> str:
        """The metrics address by the name in the certificate."""
        return f"https://localhost:{self.address('metrics').rpartition(':')[2]}"


def token_file(directory: Path, name: str, token: str, mode: int = 0o600) -> str:
    path = directory / name
    path.touch(mode)
    path.write_text(f"{token}\n")
    path.chmod(mode)
    return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("ports")
    certificates = Certificates(directory)
    named = certificates.issued("named", "localhost")
    metrics_token_file = token_file(directory, "metrics.token", METRICS_TOKEN)
    daemon = Daemon(
        directory / "data",
        "oncelog.admin.listen=127.0.0.1:0",
        f"oncelog.admin.token.file={token_file(directory, 'admin.token', ADMIN_TOKEN)}",
        "oncelog.metrics.listen=https://0.0.0.0:0",
        f"oncelog.metrics.token.file={metrics_token_file}",
        "listener.name.oncelog_metrics.ssl.keystore.type=PEM",
        f"listener.name.oncelog_metrics.ssl.keystore.location={named}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "oncelog.witness.enable=true",
    )
    yield Secured(daemon, certificates, metrics_token_file)
    daemon.stop()
    log = daemon.log
    assert ADMIN_TOKEN not in log and METRICS_TOKEN not in log, "a token was logged"


def test_faults_are_planted_with_the_token_of_their_port_alone(secured: Secured) -> None:
    address = secured.address("admin")
    assert FaultClient(address, token=ADMIN_TOKEN).events() == []
    for token in (None, METRICS_TOKEN, ADMIN_TOKEN + "x"):
        with pytest.raises(FaultsRefused, match="admin") as refused:
            FaultClient(address, token=token).crash()
        assert refused.value.status == 401
        with pytest.raises(FaultsRefused):
            next(FaultClient(address, token=token).follow())
    FaultClient(address, token=ADMIN_TOKEN).remove_all()
    assert '"principal": "Token:admin"' in secured.daemon.log
    assert "admin" not in repr(FaultClient(address, token=ADMIN_TOKEN).__dict__)


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/metrics", METRICS_TOKEN, 200),
        ("/metrics", None, 401),
        ("/metrics", ADMIN_TOKEN, 401),
        (f"/metrics?token={METRICS_TOKEN}", None, 400),
        ("/witness", None, 401),
        ("/healthz", None, 200),
        ("/readyz", None, 200),
        ("/faults", METRICS_TOKEN, 404),
    ],
)
def test_a_monitor_reads_metrics_with_its_token_and_health_without(
    secured: Secured, path: str, token: str | None, status: int
) -> None:
    """The token is sent as by Prometheus with `authorization: {credentials_file: ...}`."""
    trusting = ssl.create_default_context(cafile=secured.certificates.authority_path)
    connection = HTTPSConnection(secured.metrics.removeprefix("https://"), timeout=PATIENCE_S, context=trusting)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    response = connection.getresponse()
    assert response.status == status, response.read()
    connection.close()


def test_a_client_without_tls_gets_nothing_and_one_that_does_not_know_the_authority_goes(secured: Secured) -> None:
    connection = HTTPConnection(secured.metrics.removeprefix("https://"), timeout=PATIENCE_S)
    with pytest.raises(OSError):
        connection.request("GET", "/healthz")
        connection.getresponse()
    with pytest.raises(WitnessUnavailable, match="--metrics-ca-file names a file"):
        ask_witness(secured.metrics, token=METRICS_TOKEN)
    with pytest.raises(WitnessUnavailable, match=r"wrong\.pem: No such file"):
        ask_witness(secured.metrics, ca_file="wrong.pem")


def test_the_command_takes_the_token_from_a_file_or_the_environment(secured: Secured) -> None:
    def witness(*options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", "-m", "oncelog", "witness", "--metrics", secured.metrics, *options],
            capture_output=True,
            text=True,
            env={"ONCELOG_METRICS_CA_FILE": secured.certificates.authority_path, **environment},
            timeout=PATIENCE_S,
        )

    assert witness("--metrics-token-file", secured.metrics_token_file).returncode == 0
    assert witness(ONCELOG_METRICS_TOKEN_FILE=secured.metrics_token_file).returncode == 0
    assert witness(ONCELOG_METRICS_TOKEN=METRICS_TOKEN).returncode == 0
    refused = witness()
    assert (refused.returncode, "no token: send the header Authorization" in refused.stderr) == (2, True)
    missing = witness("--metrics-token-file", "nowhere")
    assert (missing.returncode, "--metrics-token-file nowhere: No such file" in missing.stderr) == (2, True)


def test_a_new_certificate_is_shown_to_new_connections(secured: Secured) -> None:
    def serial() -> str:
        host, _, port = secured.metrics.removeprefix("https://").rpartition(":")
        return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)

    before = serial()
    path = secured.certificates.issued("renewed", "localhost")
    key = "listener.name.oncelog_metrics.ssl.keystore.location"
    with Admin(secured.daemon.bootstrap) as admin:
        admin.alter_configs({key: path}, node_id=1)
        after = serial()
        assert before != after
        with pytest.raises(Exception, match="No such file"):
            admin.alter_configs({key: "nowhere.pem"}, node_id=1)
    assert serial() == after


def test_names_of_this_machine_are_those_that_it_advertises_and_those_of_a_setting(tmp_path: Path) -> None:
    """The names are asked for as by Prometheus in a network of containers."""
    daemon = Daemon(
        tmp_path / "data",
        "oncelog.metrics.listen=0.0.0.0:0",
        "advertised.listeners=PLAINTEXT://broker:9092",
        "oncelog.http.host.names=metrics.example,other.example",
    )
    try:
        port = Secured(daemon, Certificates(tmp_path), "").address("metrics").rpartition(":")[2]
        for name, status in {
            "broker": 200,
            "metrics.example": 200,
            "other.example:9404": 200,
            "192.0.2.1": 200,
            "elsewhere.example": 403,
        }.items():
            connection = HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
            connection.request("GET", "/healthz", headers={"Host": name})
            assert connection.getresponse().status == status, name
            connection.close()
    finally:
        daemon.stop()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("oncelog.admin.listen=0.0.0.0:0",), "other machines can reach that: set oncelog.admin.token.file"),
        (
            ("oncelog.admin.listen=127.0.0.1:0", "authorizer.class.name=StandardAuthorizer"),
            "there is an authorizer: set oncelog.admin.token.file",
        ),
        (
            ("oncelog.admin.listen=0.0.0.0:0", "oncelog.admin.token.file={open}"),
            "open may be read by others: chmod 600",
        ),
        (("oncelog.metrics.listen=127.0.0.1:0", "oncelog.metrics.token.file=nowhere"), "nowhere: No such file"),
        (("oncelog.metrics.listen=https://127.0.0.1:0",), "listener oncelog_metrics: TLS needs a key"),
    ],
)
def test_a_port_that_would_be_open_stops_the_start_with_what_to_do(
    tmp_path: Path, settings: tuple[str, ...], said: str
) -> None:
    readable = token_file(tmp_path, "open", ADMIN_TOKEN, 0o644)
    command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0"]
    for setting in settings:
        value = setting.replace("StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        command += ["--override", value.format(open=readable)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.returncode != 0
    (line,) = [each for each in answer.stderr.splitlines() if "warning" not in each]
    assert said in line and ADMIN_TOKEN not in line
