"""Kafka's own kafka-acls.sh prints over our daemon what it prints over Apache Kafka, which wrote the transcript."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.foreign.interop import java_command
from tests.support.kafka.server import serving
from tests.support.patience import PATIENCE_S

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka_acls.txt"
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
CALLS = (
    "--list",
    "--add --allow-principal User:alice --producer --topic orders --idempotent",
    "--add --allow-principal User:bob --consumer --topic orders --resource-pattern-type prefixed --group readers",
    "--add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic secrets",
    "--list --topic orders",
    "--list --topic orders-eu --resource-pattern-type match",
    "--remove --force --allow-principal User:eve --topic secrets",
    "--remove --force --topic orders --group readers --resource-pattern-type any",
    "--list --principal User:alice",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("oncelog", marks=pytest.mark.interop),
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.recording]),
    ],
)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param), *SETTINGS) as address:
        yield address


def _printed(bootstrap: str, call: str) -> str:
    """Sort the printed rules, which Kafka keeps in a set."""
    command = java_command("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap, *call.split())
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    lines = [line.strip() for line in run.stdout.splitlines() if line.strip()]
    return "\n".join([f"$ kafka-acls {call}", *sorted(lines), f"exit code {run.returncode}", ""])


def test_kafkas_script_prints_what_it_prints_over_kafka(bootstrap: str) -> None:
    printed = "\n".join(_printed(bootstrap, call) for call in CALLS)
    if os.environ.get("ONCELOG_RECORD"):
        GOLDEN.write_text(printed)
    assert printed == GOLDEN.read_text()
