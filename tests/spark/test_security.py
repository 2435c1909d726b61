"""`format("oncelog")` over SASL_SSL, in both directions: each row once, and no secret to be seen anywhere."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog.sync import Producer
from tests.spark.scenes import create, values
from tests.support.security.secured import PASSWORD, USER, Secured, secured

pytestmark = pytest.mark.spark
_ROOT = Path(__file__).parents[2]
SECRETS = (PASSWORD, "eves-secret")


@dataclass(frozen=True)
class Plain:
    """The broker's address without security, for looking at what was done."""

    bootstrap: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured("oncelog", tmp_path_factory.mktemp("broker")) as running:
        yield running


def options_of(broker: Secured) -> dict[str, str]:
    """Options as for Spark's own source."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": broker.addresses["SASL_SSL"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": broker.certificates.authority,
    }


def run_job(directory: Path, options: dict[str, str]) -> str:
    """Run the job; return what it prints and logs. All files that it leaves are below the directory."""
    (directory / "tmp").mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(directory / "tmp"), "PYTHONPATH": str(_ROOT)}
    job = subprocess.run(
        [sys.executable, "-m", "tests.support.spark.secured_job", str(directory)],
        input=json.dumps(options),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    assert job.returncode == 0, job.stdout[-4000:]
    return job.stdout


def test_both_directions_log_in_and_write_each_row_once_and_show_no_secret(broker: Secured, tmp_path: Path) -> None:
    plain = Plain(broker.addresses["PLAINTEXT"])
    create(plain, "in", "out", "copied")
    with Producer(plain.bootstrap) as producer:
        producer.send_many("in", [(None, b"%d" % number) for number in range(100)])
    said = run_job(tmp_path / "job", options_of(broker))
    rows = Counter(str(number) for number in range(100))
    assert values(plain, "out") == rows, "the batch was run twice"
    assert values(plain, "copied") == rows
    refused = [line for line in said.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 3
    assert "user 'eve'" in said
    assert '"sink": ' in said and "progress: " in said and "Physical Plan" in said
    left = {path: path.read_bytes() for path in (tmp_path / "job").rglob("*") if path.is_file()}
    assert any("checkpoint" in path.parts for path in left) and any("events" in path.parts for path in left)
    left[tmp_path / "printed"] = said.encode()
    shown = [(str(path), secret) for path, data in left.items() for secret in SECRETS if secret.encode() in data]
    assert shown == []
