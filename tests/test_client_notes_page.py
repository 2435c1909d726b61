"""docs/clients/client-notes.md speaks of the client under test, and its settings and commands exist."""

import re
import shlex
from pathlib import Path

import confluent_kafka

from tests.support.foreign.stall_run import options_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "clients" / "client-notes.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^python -m tests\.support\.foreign\.stall_run (.+)$", re.MULTILINE)


def test_the_page_speaks_of_the_librdkafka_under_test() -> None:
    version = confluent_kafka.libversion()[0]
    assert f"librdkafka {version}" in PAGE, "measure again with this version: the commands are on the page"


def test_its_commands_can_be_run_as_they_stand() -> None:
    commands = COMMAND.findall(PAGE)
    assert {options_of(shlex.split(command)).peer for command in commands} == {"oncelog", "kafka"}


def test_librdkafka_knows_its_settings() -> None:
    (clients,) = re.findall(r"```properties\n# clients\n(.*?)```", PAGE, re.DOTALL)
    settings = dict(line.split("=", 1) for line in clients.splitlines())
    confluent_kafka.Producer(settings | {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
