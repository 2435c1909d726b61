"""The suites of Apache Kafka: each of its test classes that starts a cluster is one.

Kafka's test classes come compiled from Maven Central; nothing of them is here. `java` has what stands where Kafka's
test cluster does, earlier in the class path: it starts one `oncelog serve` for each cluster that a test asks for. What
a test wants of the broker's JVM is out of reach, and says so; several brokers and replicas are made one, and counted.
With `--broker kafka` the stand-in is last in the class path, and the same tests run against Kafka's own cluster.

The integration tests of clients and of Streams are published nowhere as classes. With the sources of Kafka of the same
version in KAFKA, these commands compile them, and the variable lets them be found:

    find KAFKA/clients/clients-integration-tests KAFKA/streams/integration-tests -path '*/src/test/java/*.java' >sources
    find KAFKA/test-common/test-common-util -name Flaky.java >>sources
    javac -nowarn -proc:none -cp '.interop/kafkas-tests/*:.interop/kafka/*' -d CLASSES @sources
    export ONCELOG_KAFKA_TEST_CLASSES=CLASSES
"""

import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.suites.outputs import read_junit, read_notes
from tests.suites.suite import Broker, Collection, Suite
from tools.interop import PLACE, ROOT, jar_version, prepare_java, prepare_kafkas_tests

JARS = PLACE / "kafkas-tests"
"""Where tools/interop.py puts Kafka's test jars, and JUnit."""
CONNECT = PLACE / "connect"
"""Where it puts Connect's, with a web server."""
STAND_IN = PLACE / "kafkas-tests-java"
"""Where it compiles tests/suites/java."""
JAVA = Path(__file__).parent / "java"
ELSEWHERE = "ONCELOG_KAFKA_TEST_CLASSES"
"""A variable: folders, with colons between, of test classes that no registry has compiled."""
TEST_LIMIT_S = 180
"""The limit of one test: those of Kafka wait 15 or 60 seconds for a condition."""
CLASS_LIMIT_S = 2400

_CLUSTERS = (
    b"kafka/server/QuorumTestHarness",
    b"kafka/integration/KafkaServerTestHarness",
    b"kafka/api/IntegrationTestHarness",
    b"org/apache/kafka/common/test/ClusterInstance",
    b"org/apache/kafka/common/test/KafkaClusterTestKit",
    b"streams/integration/utils/EmbeddedKafkaCluster",
    b"connect/util/clusters/EmbeddedConnectCluster",
)
"""Names that a class has that starts a cluster, or a class that does so for it."""
_OF_THE_CLUSTER_ITSELF = ("org.apache.kafka.common.test.", "org.apache.kafka.raft.", "org.apache.kafka.controller.")


def suites() -> list[Suite]:
    """The classes whose tests speak to a cluster, in order."""
    found = {name: (body, version) for name, body, version in _compiled() if _is_test(name)}
    wanted, classes = {*_CLUSTERS}, dict[str, str]()
    while more := {
        name: version
        for name, (body, version) in found.items()
        if name not in classes and any(each in body for each in wanted)
    }:
        classes |= more
        # A class that names a test class extends it.
        wanted = {name.replace(".", "/").encode() for name in more}
    return [suite_of(name, version) for name, version in sorted(classes.items())]


def suite_of(name: str, version: str = "") -> Suite:
    return Suite(
        name,
        lambda: version,
        lambda: [name],
        partial(_command, name),
        read_junit,
        notes=read_notes,
        starts_brokers=True,
        processes="all tests",
        timeout_s=CLASS_LIMIT_S,
    )


def _command(name: str, tests: Sequence[str], broker: Broker) -> list[str]:
    """Runs the class, or methods of it."""
    return [
        "java",
        "-Xmx700m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # What Kafka's own build gives its tests, for the Kerberos that some of them start.
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        f"-Djava.io.tmpdir={broker.directory}",
        f"-Dlog4j2.configurationFile={JAVA / 'log4j2.xml'}",
        f"-Doncelog.limit={TEST_LIMIT_S} s",
        f"-Doncelog.serve={sys.executable} -m oncelog.broker serve",
        f"-Doncelog.broker={broker.kind}",
        f"-Doncelog.storage={broker.storage}",
        f"-Doncelog.takeovers={str(broker.takes_over).lower()}",
        "-cp",
        _class_path(broker.kind),
        "oncelog.kafkatests.Run",
        *(test if test == name else f"{name}#{test.partition('/')[0]}" for test in tests),
    ]


def _class_path(kind: str) -> str:
    """The stand-in first: its classes have the names of some of Kafka's. Last, it only runs the tests."""
    libraries = os.environ.get("ONCELOG_KAFKA_LIBS", str(PLACE / "kafka"))
    theirs = [*map(str, _elsewhere()), f"{JARS}/*", f"{libraries}/*", f"{CONNECT}/*"]
    return ":".join([*theirs, str(STAND_IN)] if kind == "kafka" else [str(STAND_IN), *theirs])


def _elsewhere() -> list[Path]:
    return [Path(each) for each in os.environ.get(ELSEWHERE, "").split(":") if each]


def _is_test(name: str) -> bool:
    return "$" not in name and not name.startswith(_OF_THE_CLUSTER_ITSELF)


def _compiled() -> Iterator[tuple[str, bytes, str]]:
    """Names, contents and versions of all test classes."""
    for jar in sorted(JARS.glob("*-test.jar")):
        version = re.sub(r".*-([\d.]+)-test\.jar", r"\1", jar.name)
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith("Test.class"):
                    yield _name(entry), archive.read(entry), version
    for folder in _elsewhere():
        version = f"{jar_version('kafka-clients')}, from sources"
        for path in sorted(folder.rglob("*Test.class")):
            yield _name(str(path.relative_to(folder))), path.read_bytes(), version


def _name(path: str) -> str:
    return path.removesuffix(".class").replace("/", ".")


KAFKA = Collection(
    suites,
    {"Apache Kafka": prepare_java, "its own tests": prepare_kafkas_tests},
    ROOT / "tests/suites/results/kafka.jsonl",
    ROOT / "docs/compare/kafkas-own-tests.md",
    "make kafka-tests",
    ROOT / "tests/suites/kafkas-own-tests.md",
)
