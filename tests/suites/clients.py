"""The suites of clients: franz-go, kafka-go, Sarama, librdkafka, kafka-python."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.suites.fetched import (
    BIN,
    BUILDS,
    KAFKA_GO,
    KAFKA_PYTHON,
    KGO,
    LIBRDKAFKA,
    PLACE,
    SARAMA,
    go_module,
    librdkafka_version,
    sdist_of,
)
from tests.suites.outputs import read_go, read_librdkafka, read_pytest
from tests.suites.suite import Broker, Collection, Outcome, Suite
from tools.interop import ROOT

_QUICK = ("group.initial.rebalance.delay.ms=0",)
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


def _go(
    name: str,
    module: str,
    folder: str,
    words: str,
    program: str,
    limit_s: int,
    environment: Mapping[str, str],
    settings: Sequence[str],
    port: int | None = None,
    beside: Callable[[], tuple[Sequence[str], int]] | None = None,
    changes_per_take_over: int = 1_000,
) -> Suite:
    """The suite of a package of a Go module, built as `program`: tests that reach a function with one of `words`."""

    def command(tests: Sequence[str], _: Broker) -> list[str]:
        return [
            str(BIN / program), "-test.v", f"-test.run=^({'|'.join(tests)})$", f"-test.timeout={limit_s}s",
            "-test.parallel=2",
        ]  # fmt: skip

    return Suite(
        name,
        lambda: go_module(module)[0],
        lambda: go_tests(go_module(module)[1] / folder, words),
        command,
        read_go,
        environment=lambda broker: {**environment, "KGO_SEEDS": broker.bootstrap},
        directory=lambda: go_module(module)[1] / folder,
        settings=(*_QUICK, *settings),
        port=port,
        beside=beside,
        changes_per_take_over=changes_per_take_over,
        timeout_s=limit_s + 20,
    )


_GO_FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)


def go_tests(directory: Path, words: str) -> list[str]:
    """The tests of a package that reach, in its test files, a function with one of these words (a pattern)."""
    bodies: dict[str, str] = {}
    for file in sorted(directory.glob("*_test.go")):
        for match in _GO_FUNCTION.finditer(file.read_text()):
            bodies[match[1]] = bodies.get(match[1], "") + match[0]
    reached = {name for name, body in bodies.items() if re.search(words, body)}
    called = {name: {*re.findall(r"\b\w+(?=\()", body)} - {name} for name, body in bodies.items()}
    while more := {name for name in bodies if name not in reached and called[name] & reached}:
        reached |= more
    return [name for name in bodies if name in reached and re.match(r"Test(?![a-z])", name) and name != "TestMain"]


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


def _librdkafka_flags() -> Mapping[str, str]:
    """The flags of each of its tests."""
    return dict(_LIBRDKAFKA_TEST.findall((LIBRDKAFKA / "tests/test.c").read_text()))


def _librdkafka_tests() -> list[str]:
    """All but those that need no broker, or are manual; one of each number, since a number is what can be asked for."""
    flags = _librdkafka_flags()
    names = [name for name in flags if "TEST_F_LOCAL" not in flags[name] and "TEST_F_MANUAL" not in flags[name]]
    return [*{name[:4]: name for name in reversed(names)}.values()][::-1]


def _read_librdkafka(output: str) -> Mapping[str, Outcome]:
    """Leave out the tests that share a number with one that was asked for, and need no broker."""
    flags = _librdkafka_flags()
    found = read_librdkafka(output)
    return {test: outcome for test, outcome in found.items() if "TEST_F_LOCAL" not in flags.get(test, "")}


def _librdkafka_command(tests: Sequence[str], _: Broker) -> list[str]:
    script = (
        'export RDKAFKA_TEST_CONF="$PLACE/test.conf.$$"; '
        'printf "metadata.broker.list=%s\\ntest.timeout.multiplier=3\\n" "$BROKERS" >"$RDKAFKA_TEST_CONF"; '
        f"TESTS={tests[0][:4]} exec ./test-runner -p1 -K -L"
    )
    return ["sh", "-c", script]


def _kafka_python_tests() -> list[str]:
    place = sdist_of("kafka-python", KAFKA_PYTHON)
    return [str(file.relative_to(place)) for file in sorted((place / "test/integration").glob("test_*.py"))]


SUITES = (
    _go(
        "franz-go kgo",
        KGO,
        "pkg/kgo",
        r"getSeedBrokers\(|adm\(\)",
        "kgo.test",
        400,
        {"KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000", "KGO_LOG_LEVEL": "none"},
        (),
        changes_per_take_over=4_000,  # it repeats a join for 20 seconds: several take-overs in them end a test
    ),
    _go(
        "kafka-go",
        KAFKA_GO,
        "",
        r'localhost:909|127.0.0.1:909|TCP\("localhost"\)',
        "kafka-go.test",
        180,
        {"KAFKA_VERSION": "4.0.0"},
        ("message.max.bytes=200000000", *_WITH_LOGINS),
        port=9092,
    ),
    _go(
        "Sarama",
        SARAMA,
        "",
        "FunctionalTestEnv",
        "sarama.test",
        300,
        {"TOXIPROXY_ADDR": "http://127.0.0.1:8474", "KAFKA_VERSION": "4.3.0"},
        (
            "auto.create.topics.enable=false",
            "listeners=PLAINTEXT://127.0.0.1:29099",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{_SARAMA_PORT}",
        ),
        port=29099,
        beside=_toxiproxy,
    ),
    Suite(
        "librdkafka",
        librdkafka_version,
        _librdkafka_tests,
        _librdkafka_command,
        _read_librdkafka,
        environment=lambda broker: {
            "BROKERS": broker.bootstrap,
            "PLACE": str(broker.directory),
            "TEST_KAFKA_VERSION": "4.3.0",
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "TEST_LEVEL": "2",
        },
        directory=lambda: LIBRDKAFKA / "tests",
        settings=(
            "group.initial.rebalance.delay.ms=3000",  # Kafka's default: 0113 expects two members to join together
            "auto.create.topics.enable=true",
            "num.partitions=4",
            "group.share.min.record.lock.duration.ms=1000",
            *_RIGHTS,
        ),
        processes="each test",
        timeout_s=1_800,
    ),
    Suite(
        "kafka-python",
        lambda: KAFKA_PYTHON,
        _kafka_python_tests,
        lambda tests, _: [sys.executable, "-m", "pytest", "-v", "--timeout=90", "-p", "no:cacheprovider", *tests],
        read_pytest,
        environment=lambda broker: {
            "KAFKA_URI": f"kafka://{broker.bootstrap}",
            "KAFKA_VERSION": "4.3.0",
            "KAFKA_ROOT": str(broker.directory),
            "PYTHONPATH": ".",
            "COLUMNS": "200",
        },
        directory=lambda: sdist_of("kafka-python", KAFKA_PYTHON),
        settings=(*_QUICK, "num.partitions=4", "node.id=0", "group.min.session.timeout.ms=500", *_RIGHTS),
        port=9092,
        processes="each test",
        timeout_s=400,
    ),
)

CLIENTS = Collection(
    lambda: SUITES,
    BUILDS,
    ROOT / "tests/suites/results/clients.jsonl",
    ROOT / "docs/compare/other-suites.md",
    "make proof WHAT=suites",
)
