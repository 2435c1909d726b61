"""`oncelog user`, `quota` and `token`, against our daemon and, where its jars are, Apache Kafka."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from tests.support.kafka.server import ON_BOTH, java_with_kafka
from tests.support.patience import PATIENCE_S
from tests.support.security.secured import PASSWORD, USER, Secured, secured

OWNER = f"User:{USER}"


@pytest.fixture(scope="module", params=ON_BOTH)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


class Operator:
    """Runs commands as a user who logs in by SCRAM-SHA-512, over SASL_SSL."""

    def __init__(self, broker: Secured, file: Path, user: str, password: str, more: str = "") -> None:
        line = (
            f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}"'
        )
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={broker.certificates.authority}\nsasl.jaas.config={line} {more};\n"
        )
        self.bootstrap, self.file = broker.addresses["SASL_SSL"], file
        self._place = ("--bootstrap", self.bootstrap, "--command-config", str(file))

    def run(self, *arguments: str, given: str = "", exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*arguments, *self._place], input=given)
        assert result.exit_code == exit_code, (result.output, result.exception)
        return result

    def rows(self, *arguments: str, given: str = "") -> Any:
        return json.loads(self.run(*arguments, "--json", given=given).stdout)

    def until(self, rows: Any, *arguments: str) -> None:
        """Kafka's broker learns of a change a moment after it is answered."""
        while self.rows(*arguments) != rows:
            pass

    def can_log_in(self) -> bool:
        return CliRunner().invoke(main, ["topic", "list", *self._place]).exit_code == 0


@pytest.fixture
def operator(broker: Secured, tmp_path: Path) -> Operator:
    return Operator(broker, tmp_path / "client.properties", USER, PASSWORD)


def test_users_are_added_listed_and_removed_and_log_in_meanwhile(
    broker: Secured, operator: Operator, tmp_path: Path
) -> None:
    before = operator.rows("user", "list")
    assert operator.rows("user", "add", "bob", "--iterations", "4096", given="bob's secret\n") == {
        "user": "bob",
        "mechanism": "SCRAM-SHA-512",
    }
    operator.run("user", "add", "bob", "--mechanism", "SCRAM-SHA-256", given="bob's secret\n")
    of_bob = [
        {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8_192},
        {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4_096},
    ]
    operator.until([*before, *of_bob], "user", "list")
    bob = Operator(broker, tmp_path / "bob.properties", "bob", "bob's secret")
    while not bob.can_log_in():
        pass
    operator.run("user", "remove", "bob", "--mechanism", "SCRAM-SHA-256")
    operator.run("user", "remove", "bob")
    operator.until(before, "user", "list")
    while bob.can_log_in():
        pass
    assert "has no such password" in operator.run("user", "remove", "bob", exit_code=2).stderr


def test_quotas_are_set_listed_and_removed(operator: Operator) -> None:
    row = {"user": "bob", "client_id": None, "ip": None, "quota": "producer_byte_rate", "value": 1_048_576}
    default = {**row, "client_id": "<default>", "quota": "request_percentage", "value": 12.5}
    address = {**row, "user": None, "ip": "10.0.0.1", "quota": "connection_creation_rate", "value": 7}
    set_bob = ("quota", "set", "--user", "bob", "producer_byte_rate=1048576")
    assert operator.rows(*set_bob, "--dry-run") == [row]
    assert operator.rows("quota", "list") == []
    assert operator.rows(*set_bob) == [row]
    operator.run("quota", "set", "--user", "bob", "--client-defaults", "request_percentage=12.5")
    operator.run("quota", "set", "--ip", "10.0.0.1", "connection_creation_rate=7")
    operator.until([address, row, default], "quota", "list")
    assert operator.rows("quota", "list", "--user", "bob") == [row, default]
    assert "no_such_rate" in operator.run("quota", "set", "--user", "bob", "no_such_rate=1", exit_code=2).stderr
    wrong = operator.run("quota", "remove", "--user", "bob", "consumer_byte_rate", exit_code=2)
    assert "'consumer_byte_rate' is not set there" in wrong.stderr
    assert operator.rows("quota", "remove", "--user", "bob", "--dry-run") == [row]
    assert operator.rows("quota", "remove", "--user", "bob") == [row]
    operator.run("quota", "remove", "--user", "bob", "--client-defaults", "request_percentage")
    operator.run("quota", "remove", "--ip", "10.0.0.1")
    operator.until([], "quota", "list")
    assert "no quota is set for that entity" in operator.run("quota", "remove", "--user", "bob", exit_code=2).stderr


def test_a_token_is_created_listed_renewed_and_expired_and_logs_in_meanwhile(
    broker: Secured, operator: Operator, tmp_path: Path
) -> None:
    made = operator.rows("token", "create", "--renewer", "bob", "--max-lifetime", "1h")
    assert (made["owner"], made["requester"], made["renewers"]) == (OWNER, OWNER, ["User:bob"])
    assert made["max_time_ms"] - made["issue_time_ms"] == 3_600_000
    shown = {name: value for name, value in made.items() if name != "hmac"}
    operator.until([shown], "token", "list")
    assert operator.rows("token", "list", "--show-hmac", "--owner", USER) == [made]
    assert operator.rows("token", "list", "--owner", "bob") == [shown], "who may renew it counts, too"
    assert operator.rows("token", "list", "--owner", "eve") == []
    worker = Operator(broker, tmp_path / "worker.properties", made["token_id"], made["hmac"], 'tokenauth="true"')
    while not worker.can_log_in():
        pass
    assert "REQUEST_NOT_ALLOWED" in worker.run("token", "list", exit_code=2).stderr
    renewed = operator.rows("token", "renew", made["token_id"], "--period", "10m")
    operator.until([{**shown, "expiry_time_ms": renewed["expiry_time_ms"]}], "token", "list")
    assert made["issue_time_ms"] + 600_000 <= renewed["expiry_time_ms"] < made["max_time_ms"]
    later = operator.rows("token", "expire", made["token_id"], "--after", "5m")
    assert later["expiry_time_ms"] < renewed["expiry_time_ms"]
    operator.run("token", "expire", made["token_id"])
    operator.until([], "token", "list")
    while worker.can_log_in():
        pass
    assert "you see no token" in operator.run("token", "renew", made["token_id"], exit_code=2).stderr


@pytest.mark.kafka
def test_kafkas_own_clients_log_in_with_a_token_that_is_made_here(
    broker: Secured, operator: Operator, tmp_path: Path
) -> None:
    made = operator.rows("token", "create")
    worker = Operator(broker, tmp_path / "worker.properties", made["token_id"], made["hmac"], 'tokenauth="true"')
    while not worker.can_log_in():
        pass
    tool = ("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "of-a-worker", "--partitions", "1")
    place = ("--bootstrap-server", worker.bootstrap, "--command-config", str(worker.file))
    subprocess.run([*java_with_kafka(), *tool, *place], check=True, capture_output=True, timeout=PATIENCE_S)
    assert "of-a-worker" in [row["topic"] for row in operator.rows("topic", "list")]
    operator.run("token", "expire", made["token_id"])
