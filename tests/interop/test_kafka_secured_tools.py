"""Kafka's own tools over SASL_SSL, with --command-config, print here what they print over Apache Kafka, which wrote the
transcript (ONCELOG_RECORD=1 with its jars writes it again)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.foreign.interop import java_command, run
from tests.support.kafka.java import ask_kafka
from tests.support.security.secured import PASSWORD, Secured, secured

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka_secured_tools.txt"
PROGRAM = Path(__file__).parent / "AdminTools.java"
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
# Who asks, and what. HMAC is that of the first token that was made.
BEFORE = (
    "admin: kafka-topics --create --topic orders --partitions 2",
    "admin: kafka-topics --describe --topic orders",
    "alice: kafka-topics --list",
    "alice: kafka-topics --describe --topic orders",
    "alice: kafka-topics --create --topic mine",
    "alice: kafka-topics --delete --topic orders",
    "alice: kafka-topics --alter --topic orders --partitions 3",
    "admin: kafka-acls --add --allow-principal User:alice --producer --topic orders",
    "admin: kafka-acls --add --allow-principal User:bob --consumer --topic orders --group readers",
    "admin: kafka-acls --add --allow-principal User:bob --operation CreateTokens --user-principal User:alice",
    "admin: kafka-acls --add --deny-principal User:eve --operation All --delegation-token any",
    "admin: kafka-acls --list",
    "alice: kafka-acls --list",
    "alice: kafka-acls --add --allow-principal User:alice --operation All --cluster",
    "alice: kafka-topics --describe --topic orders",
    "admin: kafka-configs --describe --entity-type users",
    "admin: kafka-configs --alter --entity-type users --entity-name carol "
    "--add-config SCRAM-SHA-256=[iterations=8192,password=carols],SCRAM-SHA-512=[password=carols]",
    "admin: kafka-configs --alter --entity-type users --entity-name carol "
    "--add-config SCRAM-SHA-256=[iterations=8192,password=carols]",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --add-config SCRAM-SHA-512=[password=carols]",
    "admin: kafka-configs --alter --entity-type users --entity-name carol "
    "--add-config SCRAM-SHA-256=[iterations=100,password=carols]",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --add-config SCRAM-MD5=[password=carols]",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --add-config producer_byte_rate=1024",
    "admin: kafka-configs --alter --entity-type users --entity-default --add-config consumer_byte_rate=4096",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --entity-type clients --entity-name loader "
    "--add-config request_percentage=50",
    "admin: kafka-configs --alter --entity-type clients --entity-default --add-config controller_mutation_rate=5",
    "admin: kafka-configs --describe --entity-type users --entity-name carol",
    "admin: kafka-configs --describe --entity-type users",
    "admin: kafka-configs --describe --entity-type users --entity-default",
    "admin: kafka-configs --describe --entity-type users --entity-type clients",
    "admin: kafka-configs --describe --entity-type clients",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-256",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-256",
    "admin: kafka-configs --alter --entity-type users --entity-name carol --delete-config producer_byte_rate",
    "admin: kafka-configs --describe --entity-type users --entity-name carol",
    "alice: kafka-configs --describe --entity-type users",
    "alice: kafka-configs --alter --entity-type users --entity-name carol --add-config producer_byte_rate=1024",
    "alice: kafka-configs --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[password=x]",
    "alice: kafka-delegation-tokens --create --max-life-time-period -1 --renewer-principal User:bob",
)
PRODUCE = "alice: kafka-console-producer --topic orders"
CONSUME = (
    "bob: kafka-console-consumer --topic orders --group readers --from-beginning --max-messages 2 --timeout-ms 20000"
)
REFUSED = "alice: kafka-console-consumer --topic orders --group readers --from-beginning --timeout-ms 20000"
AFTER = (
    "alice: kafka-delegation-tokens --describe",
    "bob: kafka-delegation-tokens --describe",
    "bob: kafka-delegation-tokens --describe --owner-principal User:alice",
    "eve: kafka-delegation-tokens --describe",
    "bob: kafka-delegation-tokens --renew --renew-time-period -1 --hmac HMAC",
    "eve: kafka-delegation-tokens --renew --renew-time-period -1 --hmac HMAC",
    "eve: kafka-delegation-tokens --expire --expiry-time-period -1 --hmac HMAC",
    "alice: kafka-delegation-tokens --renew --renew-time-period -1 --hmac AAAA",
    "bob: kafka-delegation-tokens --create --max-life-time-period -1 --owner-principal User:alice",
    "eve: kafka-delegation-tokens --create --max-life-time-period -1 --owner-principal User:alice",
    "alice: kafka-delegation-tokens --expire --expiry-time-period 60000 --hmac HMAC",
    "alice: kafka-delegation-tokens --expire --expiry-time-period -1 --hmac HMAC",
    "alice: kafka-delegation-tokens --expire --expiry-time-period -1 --hmac HMAC",
    "alice: kafka-delegation-tokens --renew --renew-time-period -1 --hmac HMAC",
    "admin: kafka-acls --remove --force --allow-principal User:bob --consumer --topic orders --group readers",
    "admin: kafka-acls --list --principal User:bob",
    "admin: kafka-topics --delete --topic orders",
    "admin: kafka-topics --list",
)
USERS = ("admin", "alice", "bob", "eve")
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS;User:admin",
    "delegation.token.secret.key=some-long-random-text",
    "group.initial.rebalance.delay.ms=0",
)
# Ids, HMACs and times, which no two runs have in common; where a Java program was when it failed.
_NOISE = (
    (re.compile(r"[A-Za-z0-9+/]{86}=="), "HMAC"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), "TIME"),
    (re.compile(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}"), "TIME"),
    (re.compile(r"\[\d{4}-\d\d-\d\d [^]]*\] *"), ""),
    # Kafka sets it on all brokers by itself, because of eligible leader replicas.
    (re.compile("min[.]insync[.]replicas=1"), ""),
    # Kafka prints its form of the request.
    (re.compile(r"Request Request\(.*\) needs"), "Request needs"),
    (re.compile(r" are (SCRAM.*)"), r" are, \1"),
    (re.compile(r"\s+"), " "),
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("oncelog", marks=pytest.mark.interop),
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.recording]),
    ],
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(request.param, tmp_path_factory.mktemp(request.param), *SETTINGS, users=USERS) as running:
        yield running


class Tools:
    """Kafka's tools on the command line, run as four users, each with a file of settings."""

    def __init__(self, broker: Secured, directory: Path) -> None:
        self._address, self._directory = broker.addresses["SASL_SSL"], directory
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        for user in USERS:
            (directory / user).write_text(
                "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
                f"ssl.truststore.location={broker.certificates.authority}\n"
                f'sasl.jaas.config={module} required username="{user}" password="{PASSWORD}";\n'
            )

    def words(self, call: str) -> list[str]:
        user, tool, *arguments = call.replace(":", "", 1).split()
        connected = ("--bootstrap-server", self._address, "--command-config", str(self._directory / user))
        return [TOOLS[tool], *connected, *arguments]

    def said(self, call: str, answer: str) -> str:
        lines = answer.replace(self._address, "ADDRESS").replace(str(self._directory), "DIRECTORY").splitlines()
        for pattern, instead in _NOISE:
            lines = [pattern.sub(instead, line).strip() for line in lines]
        # Rules, and what is described of users, are kept in hash tables.
        lines = [", ".join(sorted(line.split(", "))) if line.startswith("SCRAM") else line for line in lines]
        told = sorted(line for line in lines if line and not line.startswith(("at ", "SLF4J")))
        return "\n".join((f"$ {call}", *told, ""))

    def ask(self, calls: tuple[str, ...], hmac: str = "HMAC") -> list[str]:
        """Run the calls in one process; return each answer as it is printed."""
        questions = ["\t".join(self.words(call)).replace("HMAC", hmac) for call in calls]
        return [answer.replace("\\n", "\n") for answer in ask_kafka(PROGRAM, questions)]


@pytest.mark.slow
def test_the_tools_print_over_sasl_ssl_what_they_print_over_kafka(broker: Secured, tmp_path: Path) -> None:
    tools = Tools(broker, tmp_path)
    first = tools.ask(BEFORE)
    made = re.search(r"[A-Za-z0-9+/]{86}==", first[-1])
    assert made is not None, first[-1]
    produced = run(java_command(*tools.words(PRODUCE)), "one\ntwo\n")
    consumed = run(java_command(*tools.words(CONSUME)))
    second = tools.ask((REFUSED, *AFTER), made[0])
    calls = (*BEFORE, PRODUCE, CONSUME, REFUSED, *AFTER)
    answers = (*first, produced, consumed, *second)
    printed = "\n".join(tools.said(*each) for each in zip(calls, answers, strict=True))
    if os.environ.get("ONCELOG_RECORD"):
        GOLDEN.write_text(printed)
    assert PASSWORD not in printed
    assert printed.split("$ ") == GOLDEN.read_text().split("$ ")
