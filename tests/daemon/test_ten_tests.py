"""The ten tests of docs/start/ten-tests.md: they hold for the service with each client, and find what they are for."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

_EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "billing"
CLIENTS = ("oncelog", "aiokafka", "confluent-kafka")
MISTAKES = {
    "no producer is fenced": (
        "a_zombie_commits_nothing",
        "aiokafka",
        ('f"billing-{place.topic}-{place.partition}"', "str(id(self))"),
        "assert billed(",
    ),
    "the commit does not say which member it is": (
        "a_slow_consumer",
        "confluent-kafka",
        ("consumer.consumer_group_metadata()", 'Consumer({"group.id": "billing"}).consumer_group_metadata()'),
        "assert billed(",
    ),
    "an order that cannot be billed is raised": (
        "a_poison_record",
        "oncelog",
        ('return "refused", order', "raise"),
        "TimeoutError: after 5 s the group 'billing' has not committed everything",
    ),
    "offsets are committed beside": (
        "offsets_are_committed_with_the_invoices",
        "confluent-kafka",
        (
            "        [TopicPartition(*place, offset) for place, offset in behind.items()], "
            "consumer.consumer_group_metadata()\n",
            "        [], consumer.consumer_group_metadata()\n"
            "    )\n"
            "    consumer.commit(\n"
            "        offsets=[TopicPartition(*place, offset) for place, offset in behind.items()],\n"
            "        asynchronous=False,\n",
        ),
        "assert (oncelog_broker.committed",
    ),
    "it goes on at the end": (
        "retention_has_overtaken",
        "aiokafka",
        ('"earliest"', '"latest"'),
        "TimeoutError: after 5 s the group 'billing' has not committed everything: orders-0 at 1 of 10",
    ),
    "it does not try again": (
        "starts_before_the_broker",
        "aiokafka",
        ("except KafkaError:", "except ZeroDivisionError:"),
        "TimeoutError: after 5 s the group 'billing' has not committed everything",
    ),
    "a new field has no default": (
        "the_next_schema",
        "oncelog",
        ('fields.get("count", 1)', 'fields["count"]'),
        "assert cents ==",
    ),
}


def run(folder: Path, selected: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest"]
    return subprocess.run(
        [*command, "-k", selected], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_the_ten_hold_with_each_client(client: str) -> None:
    done = run(_EXAMPLE, f"[{client}]")
    assert "10 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_service_with_a_mistake_fails_the_test_that_is_for_it(mistake: str, tmp_path: Path) -> None:
    selected, client, (right, wrong), said = MISTAKES[mistake]
    copy = copytree(_EXAMPLE, tmp_path / "billing", ignore=ignore_patterns("__pycache__"))
    sources = [copy / "billing.py", copy / f"with_{client.replace('-', '_')}.py"]
    (changed,) = (path for path in sources if right in path.read_text(encoding="utf-8"))
    changed.write_text(changed.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    if said.startswith("TimeoutError"):  # what never comes need not be waited for as long as what is late
        tests = copy / "test_ten.py"
        tests.write_text(tests.read_text(encoding="utf-8").replace('"billing", "orders")', '"billing", "orders", 5)'))
    done = run(copy, f"{selected} and [{client}]")
    assert "1 failed" in done.stdout and said in done.stdout, done.stdout + done.stderr
