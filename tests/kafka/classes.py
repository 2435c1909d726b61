"""The test classes of Kafka that start a cluster, and the class path that runs them."""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.foreign.interop import PLACE

JARS = PLACE / "kafkas-tests"
"""Where tools/interop.py puts Kafka's test jars, and JUnit."""
STAND_IN = PLACE / "kafkas-tests-java"
"""Where it compiles tests/kafka/java."""
ELSEWHERE = "ONCELOG_KAFKA_TEST_CLASSES"
"""A variable: folders, with colons between, of test classes that no registry has compiled."""

CLUSTERS = (
    b"kafka/server/QuorumTestHarness",
    b"kafka/integration/KafkaServerTestHarness",
    b"kafka/api/IntegrationTestHarness",
    b"org/apache/kafka/common/test/ClusterInstance",
    b"org/apache/kafka/common/test/KafkaClusterTestKit",
    b"streams/integration/utils/EmbeddedKafkaCluster",
    b"connect/util/clusters/EmbeddedConnectCluster",
)
"""What a class names that starts a cluster, or a class that does so for it."""
OF_THE_CLUSTER_ITSELF = ("org.apache.kafka.common.test.", "org.apache.kafka.raft.", "org.apache.kafka.controller.")


def elsewhere() -> list[Path]:
    return [Path(each) for each in os.environ.get(ELSEWHERE, "").split(":") if each]


def class_path() -> str:
    """The stand-in first: its classes have the names of some of Kafka's."""
    libraries = os.environ.get("ONCELOG_KAFKA_LIBS", str(PLACE / "kafka"))
    return ":".join([str(STAND_IN), *map(str, elsewhere()), f"{JARS}/*", f"{libraries}/*"])


def test_classes() -> list[str]:
    """Return the names of the classes whose tests speak to a cluster, in order."""
    known = {name: body for name, body in _compiled() if "$" not in name}
    wanted = set(CLUSTERS)
    found: set[str] = set()
    while True:
        more = {name for name in known.keys() - found if _is_test(name) and _names_any(known[name], wanted)}
        if not more:
            return sorted(found)
        found |= more
        # A class that mentions a test class extends it.
        wanted = {name.replace(".", "/").encode() for name in more}


def origins() -> Mapping[str, str]:
    """The jar, or the folder, of each class."""
    return {
        **{name: jar.name for jar in sorted(JARS.glob("*-test.jar")) for name, _ in _of_jar(jar)},
        **{name: "compiled elsewhere" for folder in elsewhere() for name, _ in _of_folder(folder)},
    }


def _is_test(name: str) -> bool:
    return name.endswith("Test") and not name.startswith(OF_THE_CLUSTER_ITSELF)


def _names_any(body: bytes, wanted: set[bytes]) -> bool:
    return any(each in body for each in wanted)


def _compiled() -> Iterator[tuple[str, bytes]]:
    for jar in sorted(JARS.glob("*-test.jar")):
        yield from _of_jar(jar)
    for folder in elsewhere():
        yield from _of_folder(folder)


def _of_jar(jar: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.endswith("Test.class"):
                yield entry.removesuffix(".class").replace("/", "."), archive.read(entry)


def _of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*Test.class")):
        yield str(path.relative_to(folder)).removesuffix(".class").replace("/", "."), path.read_bytes()
