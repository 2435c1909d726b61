"""Each result carries the version of its client, for the page docs/compare/works-with.md."""

import fnmatch
import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import pytest

from tests.support.foreign.interop import CONFLUENT_NODE_PACKAGES, NODE_PACKAGES, PLACE, ROOT
from tools.interop import APICURIO

_FLINK = ("runtime", "connector-kafka")


def _kafka() -> str:
    jars = sorted(Path(os.environ["ONCELOG_KAFKA_LIBS"]).glob("kafka-clients-*.jar"))
    return jars[0].stem.removeprefix("kafka-clients-")


def _kcat() -> str:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    return said.split("Version ")[1].split()[0] + ", librdkafka " + said.split("librdkafka ")[1].split()[0]


def _franz_go() -> str:
    lines = (ROOT / "tests/interop/go/go.mod").read_text().splitlines()
    return ", ".join(line.strip().rpartition("/")[2] for line in lines if "franz-go" in line and "indirect" not in line)


def _go(module: str) -> str:
    lines = (ROOT / "tests/interop/go/go.mod").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.strip().startswith(f"{module} "))


def _flink() -> str:
    runtime, connector = (next((PLACE / "flink").glob(f"flink-{name}-[0-9]*.jar")) for name in _FLINK)
    return f"{runtime.stem.rpartition('-')[2]}, connector {connector.stem.partition('-kafka-')[2]}"


def _connect() -> str:
    return next((PLACE / "connect").glob("connect-runtime-*.jar")).stem.rpartition("-")[2]


def _rskafka() -> str:
    wanted = tomllib.loads((ROOT / "tests/interop/rust/Cargo.toml").read_text())
    return str(wanted["dependencies"]["rskafka"]["version"]).lstrip("=")


def _quixstreams() -> str:
    return (ROOT / "tests/interop/quixstreams/requirements.txt").read_text().strip().partition("==")[2]


def _kafkajs() -> str:
    return str(json.loads((NODE_PACKAGES / "kafkajs/package.json").read_text())["version"])


def _confluentjs() -> str:
    package = json.loads((CONFLUENT_NODE_PACKAGES / "@confluentinc/kafka-javascript/package.json").read_text())
    return f"{package['version']}, librdkafka {package['librdkafka']}"


def _confluent_kafka() -> str:
    return f"{version('confluent-kafka')}, librdkafka {confluent_kafka.libversion()[0]}"


def _frameworks() -> str:
    wanted = (ROOT / "tests/interop/frameworks/requirements.txt").read_text().splitlines()
    return ", ".join(line.replace("==", " ") for line in wanted if line.startswith(("fa", "testc")))


VERSIONS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("test_confluent_*", _confluent_kafka),
    ("test_aiokafka*", lambda: version("aiokafka")),
    ("test_kafka_python*", lambda: version("kafka-python")),
    ("test_kcat*", _kcat),
    ("test_franz_go*", _franz_go),
    ("test_sarama*", lambda: _go("github.com/IBM/sarama")),
    ("test_kafka_go*", lambda: _go("github.com/segmentio/kafka-go")),
    ("test_kafka_connect*", _connect),
    ("test_flink*", _flink),
    ("test_rskafka*", _rskafka),
    ("test_quixstreams*", _quixstreams),
    ("test_kafkajs*", _kafkajs),
    ("test_confluentjs*", _confluentjs),
    ("test_client_against_kafka*", lambda: "this version"),
    ("test_frameworks*", _frameworks),
    ("test_secured_*", lambda: "as theirs"),
    ("test_takeovers*", lambda: "as theirs, Java 3.9"),
    ("test_apicurio*", lambda: APICURIO),
    ("*", _kafka),
)


@cache
def _version_of(module: str) -> str:
    return next(of for pattern, of in VERSIONS if fnmatch.fnmatchcase(module, pattern))()


@pytest.fixture(autouse=True)
def client_version(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    module = request.module.__name__.rpartition(".")[2]
    try:
        record_property("client_version", _version_of(module))
    except (OSError, LookupError, StopIteration):
        return  # the client is not here, and its tests skip themselves
