"""The table of suites."""

import json
import re
import sys
from collections.abc import Sequence

from tests.proofs.suites.fetched import BIN, KAFKA_PYTHON, LIBRDKAFKA, PLACE, go_module, librdkafka_version, sdist_of
from tests.proofs.suites.suite import (
    Excuse,
    Reason,
    Suite,
    go_tests,
    read_go,
    read_librdkafka,
    read_pytest,
)

_QUICK = ("group.initial.rebalance.delay.ms=0",)
_KGO = "github.com/twmb/franz-go"
_KAFKA_GO = "github.com/segmentio/kafka-go"
_SARAMA = "github.com/IBM/sarama"
_RIGHTS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "super.users=User:ANONYMOUS",
)
_WITH_LOGINS = (
    "listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "advertised.listeners=PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9093",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_adminplain="admin-secret";',
    *(
        f"listener.name.sasl_plaintext.scram-sha-{bits}.sasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        for bits in (256, 512)
    ),
    *_RIGHTS,
)
_SARAMA_PORT = 29091
"""The first of the five that its functional tests look at."""


def _go_command(program: str, limit_s: int, tests: Sequence[str]) -> list[str]:
    return [
        str(BIN / program), "-test.v", f"-test.run=^({'|'.join(tests)})$", f"-test.timeout={limit_s}s",
        "-test.parallel=2",
    ]  # fmt: skip


def _toxiproxy() -> tuple[list[str], int]:
    """Five proxies, as the suite wants to find them, before one broker, which is known by the first."""
    settings = PLACE / "toxiproxy.json"
    proxies = [
        {"name": f"kafka{number + 1}", "listen": f"127.0.0.1:{_SARAMA_PORT + number}", "upstream": "127.0.0.1:29099"}
        for number in range(5)
    ]
    settings.write_text(json.dumps(proxies))
    return [str(BIN / "toxiproxy"), "-config", str(settings), "-port", "8474"], 8474


_LIBRDKAFKA_TEST = re.compile(r"^ +_TEST\((\d{4}_\w+),\s*([^,)]+)", re.MULTILINE)


def _librdkafka_tests() -> list[str]:
    """All but those that need no broker, or are manual; one of each number, since a number is what can be asked for."""
    found = _LIBRDKAFKA_TEST.findall((LIBRDKAFKA / "tests/test.c").read_text())
    names = [name for name, flags in found if "TEST_F_LOCAL" not in flags and "TEST_F_MANUAL" not in flags]
    return [*{name[:4]: name for name in reversed(names)}.values()][::-1]


def _librdkafka_command(tests: Sequence[str]) -> list[str]:
    script = (
        'export RDKAFKA_TEST_CONF="$PLACE/test.conf.$$"; '
        'printf "metadata.broker.list=%s\\ntest.timeout.multiplier=3\\n" "$BROKERS" >"$RDKAFKA_TEST_CONF"; '
        f"TESTS={tests[0][:4]} exec ./test-runner -p1 -K"
    )
    return ["sh", "-c", script]


def _kafka_python_tests() -> list[str]:
    place = sdist_of("kafka-python", KAFKA_PYTHON)
    return [str(file.relative_to(place)) for file in sorted((place / "test/integration").glob("test_*.py"))]


SUITES = (
    Suite(
        "franz-go kgo",
        lambda: go_module(_KGO)[0],
        lambda: go_tests(go_module(_KGO)[1] / "pkg/kgo", r"getSeedBrokers\(|adm\(\)"),
        lambda tests: _go_command("kgo.test", 400, tests),
        read_go,
        {
            "KGO_SEEDS": "{bootstrap}",
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": "20000",
            "KGO_LOG_LEVEL": "none",
        },
        lambda: go_module(_KGO)[1] / "pkg/kgo",
        settings=_QUICK,
        timeout_s=420,
    ),
    Suite(
        "kafka-go",
        lambda: go_module(_KAFKA_GO)[0],
        lambda: go_tests(go_module(_KAFKA_GO)[1], r'localhost:909|127.0.0.1:909|TCP\("localhost"\)'),
        lambda tests: _go_command("kafka-go.test", 180, tests),
        read_go,
        {"KAFKA_VERSION": "4.0.0"},
        lambda: go_module(_KAFKA_GO)[1],
        settings=(*_QUICK, "message.max.bytes=200000000", *_WITH_LOGINS),
        port=9092,
        timeout_s=200,
    ),
    Suite(
        "Sarama",
        lambda: go_module(_SARAMA)[0],
        lambda: go_tests(go_module(_SARAMA)[1], "FunctionalTestEnv"),
        lambda tests: _go_command("sarama.test", 300, tests),
        read_go,
        {"TOXIPROXY_ADDR": "http://127.0.0.1:8474", "KAFKA_VERSION": "4.3.0"},
        lambda: go_module(_SARAMA)[1],
        settings=(
            *_QUICK,
            "auto.create.topics.enable=false",
            "listeners=PLAINTEXT://127.0.0.1:29099",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{_SARAMA_PORT}",
        ),
        port=29099,
        beside=_toxiproxy,
        timeout_s=320,
        excuses=(
            Excuse("TestFuncTxnProduceWithBrokerFailure", Reason.OWN_MACHINERY, "It stops the coordinator by Docker."),
            Excuse(
                "TestFuncAdminListConsumerGroupOffsets", Reason.OWN_MACHINERY, "It stops the coordinator by Docker."
            ),
            Excuse("TestFuncIdempotentBufferedSequence", Reason.OWN_MACHINERY, "It reads the broker's log by Docker."),
            Excuse("TestFuncAdminDescribeLogDirs", Reason.SEVERAL_BROKERS, "It counts the answers of five."),
            Excuse("TestFuncAdminAlterPartitionReassignments", Reason.SEVERAL_BROKERS, "It adds a replica."),
            Excuse("TestConsumerFetchFollowerFailover", Reason.SEVERAL_BROKERS, "It reads from a follower."),
            Excuse("TestJava*", Reason.OWN_MACHINERY, "It runs Kafka's scripts in its own container."),
            Excuse("TestFuncJava*", Reason.OWN_MACHINERY, "It runs Kafka's scripts in its own container."),
        ),
    ),
    Suite(
        "librdkafka",
        librdkafka_version,
        _librdkafka_tests,
        _librdkafka_command,
        read_librdkafka,
        {
            "BROKERS": "{bootstrap}",
            "PLACE": "{directory}",
            "TEST_KAFKA_VERSION": "4.3.0",
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "TEST_LEVEL": "2",
        },
        lambda: LIBRDKAFKA / "tests",
        settings=(
            *_QUICK,
            "auto.create.topics.enable=true",
            "num.partitions=4",
            "group.share.min.record.lock.duration.ms=1000",
            *_RIGHTS,
        ),
        batch=1,
        timeout_s=900,
        excuses=(
            Excuse("0103_*", Reason.SEVERAL_BROKERS, "It makes topics of three replicas."),
            Excuse("0052_*", Reason.OWN_MACHINERY, "It runs Kafka's scripts."),
            Excuse("0077_*", Reason.OWN_MACHINERY, "It runs Kafka's scripts."),
            Excuse("0109_*", Reason.OWN_MACHINERY, "It runs Kafka's scripts."),
            Excuse("0115_*", Reason.OWN_MACHINERY, "It runs Kafka's scripts."),
            Excuse("0119_*", Reason.OWN_MACHINERY, "It runs Kafka's scripts."),
            Excuse(
                "0171_*", Reason.OWN_MACHINERY, "It wants zstd, which is left out of the library as it is built here."
            ),
        ),
    ),
    Suite(
        "kafka-python",
        lambda: KAFKA_PYTHON,
        _kafka_python_tests,
        lambda tests: [sys.executable, "-m", "pytest", "-v", "--timeout=90", "-p", "no:cacheprovider", *tests],
        read_pytest,
        {
            "KAFKA_URI": "kafka://{bootstrap}",
            "KAFKA_VERSION": "4.3.0",
            "KAFKA_ROOT": "{directory}",
            "PYTHONPATH": ".",
            "COLUMNS": "200",
        },
        lambda: sdist_of("kafka-python", KAFKA_PYTHON),
        settings=(*_QUICK, "num.partitions=4", "node.id=0", "group.min.session.timeout.ms=500", *_RIGHTS),
        port=9092,
        excuses=(
            Excuse("*test_sasl_*", Reason.OWN_MACHINERY, "It starts a Kafka of its own, with logins."),
            Excuse("*test_ssl_*", Reason.OWN_MACHINERY, "It starts a Kafka of its own, with certificates."),
        ),
        batch=1,
        timeout_s=400,
    ),
)
