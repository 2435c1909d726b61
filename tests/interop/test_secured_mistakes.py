"""What each client shows where security is set wrongly is what docs/operate/security.md says that it shows."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from oncelog.client.wire.security import SecurityProtocol
from tests.support.foreign.interop import ROOT
from tests.support.patience import until
from tests.support.processes.logged import whole_lines
from tests.support.security import secured_jobs
from tests.support.security.secure_clients import Security
from tests.support.security.secured import PASSWORD, USER, Secured, secured
from tests.support.security.secured_jobs import InJava, Job, Work

pytestmark = pytest.mark.interop

IN_JAVA = InJava()
CLIENTS: dict[str, Work] = {
    "Java": IN_JAVA,
    "librdkafka": secured_jobs.confluent,
    "franz-go": secured_jobs.in_go,
    "KafkaJS": secured_jobs.in_node,
    "aiokafka": secured_jobs.aiokafka,
    "kafka-python": secured_jobs.kafka_python,
    "oncelog": secured_jobs.oncelog,
}
BROKERS_LOG = "the broker's log"
_PAGE = (ROOT / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
_SECTION = _PAGE.partition("## What you see when it is wrong\n")[2].partition("\n## ")[0]
SEEN: dict[str, dict[str, str]] = {}
"""A part of what each client shows, as the page has it, by mistake and then by client."""
for mistake, client, shown in re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$", _SECTION, re.MULTILINE):
    SEEN.setdefault(mistake, {})[client] = shown


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oncelog")


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[Secured]:
    with secured("oncelog", directory) as running:
        yield running
    IN_JAVA.stop()


def wrong(mistake: str, broker: Secured, directory: Path) -> tuple[SecurityProtocol, Security]:
    """The listener, and what the client brings to it."""
    right = Security("SASL_SSL", broker.certificates.authority, "", "SCRAM-SHA-512", USER, PASSWORD)
    match mistake:
        case "a wrong password":
            return "SASL_SSL", replace(right, password="wrong")
        case "another authority":
            other = directory / "other.pem"
            trustme.CA().cert_pem.write_to_path(str(other))
            return "SASL_SSL", replace(right, authority_path=str(other))
        case "plain text to TLS":
            return "SASL_SSL", Security("PLAINTEXT")
        case "TLS to plain text":
            return "PLAINTEXT", Security("SSL", broker.certificates.authority)
    raise ValueError(mistake)


def test_the_page_has_each_client_at_each_mistake() -> None:
    assert len(SEEN) == 4
    assert all([*each] == [*CLIENTS, BROKERS_LOG] for each in SEEN.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mistake", SEEN)
def test_a_client_shows_what_the_page_says(
    broker: Secured, directory: Path, mistake: str, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The text is in the client's error or in its log."""
    caplog.set_level(logging.INFO)
    listener, security = wrong(mistake, broker, directory)
    job = Job(scene="produce", bootstrap=broker.addresses[listener], security=security, topic="orders", value="value")
    answer = CLIENTS[client](replace(job, patience_ms=3_000))
    assert SEEN[mistake][client] in answer + caplog.text
    shown = SEEN[mistake][BROKERS_LOG]
    # A client may end before the broker has heard why.
    until(lambda: any(shown in line for line in whole_lines(directory / "data.stderr")))
