"""Fetches and builds the clients of other languages for tests/interop, and says what it has to leave out, and why.

    python tools/interop.py prepare          into .interop, each with its ordinary package manager
    python tools/interop.py table FILE       "works with" from the JUnit results of a run, on standard output
    python tools/interop.py table FILE PAGE  the same, written to a page

Versions are pinned in the package managers' own files beside the tests: tests/interop/java/pom.xml,
tests/interop/java/connect/pom.xml, tests/interop/java/flink/pom.xml, tests/interop/go/go.mod,
tests/interop/rust/Cargo.toml, tests/interop/node/package.json, tests/interop/confluentjs/package.json,
tests/interop/frameworks/requirements.txt, tests/interop/quixstreams/requirements.txt,
tests/interop/sslyze/requirements.txt.
"""

import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".interop"
SOURCES = ROOT / "tests" / "interop"

APICURIO = "3.0.9"


class Client(NamedTuple):
    name: str
    modules: tuple[str, ...]
    """Patterns of the test modules' names."""
    limits: str = ""
    """What the client itself does not do."""


CLIENTS = (
    Client(
        "confluent-kafka (Python, librdkafka)",
        ("test_confluent_*",),
        "Before you use transactions with offsets: [what to set](../clients/client-notes.md). Its share consumer is a "
        "preview.",
    ),
    Client("aiokafka (Python)", ("test_aiokafka*",)),
    Client(
        "kafka-python",
        ("test_kafka_python*",),
        "Compresses with snappy where the package python-snappy is there. A commit does not return where its "
        "coordinator was killed (of an Apache Kafka of three brokers, too): [what to do](../clients/client-notes.md).",
    ),
    Client(
        "kcat (librdkafka)",
        ("test_kcat*",),
        "One transaction from start to end of input; no abort by command, so an abort is a producer that is killed.",
    ),
    Client(
        "Apache Kafka's Java clients and console tools",
        (
            "test_java_*",
            "test_kafka_acls*",
            "test_kafka_console_tools*",
            "test_kafka_secured_tools*",
            "test_kafka_share_*",
        ),
    ),
    Client("Kafka Streams", ("test_kafka_streams*",)),
    Client(
        "Kafka Connect and MirrorMaker 2",
        ("test_kafka_connect*",),
        "A distributed worker with `exactly.once.source.support=enabled`.",
    ),
    Client("Apache Flink", ("test_flink*",), "`KafkaSource` to `KafkaSink` with `EXACTLY_ONCE`, in one process."),
    Client(
        "franz-go (Go: kgo, kadm)",
        ("test_franz_go*",),
        "A KIP-848 member without partitions sends heartbeats to a killed coordinator until it looks at Metadata: five "
        "minutes by default, of an Apache Kafka of three brokers, too.",
    ),
    Client("Sarama (Go)", ("test_sarama*",)),
    Client("kafka-go (Go)", ("test_kafka_go*",), "At least once: its writer has neither idempotence nor transactions."),
    Client(
        "KafkaJS (Node)",
        ("test_kafkajs*",),
        "Compresses with gzip alone unless a codec is plugged in (here: snappy); idempotence is experimental. A commit "
        "fails, and stays unknown, where its coordinator was killed (of an Apache Kafka of three brokers, too): [what "
        "to do](../clients/client-notes.md).",
    ),
    Client(
        "@confluentinc/kafka-javascript (Node, librdkafka)",
        ("test_confluentjs*",),
        "Built from the sources in its npm package, with the system's OpenSSL and zlib, so without zstd. The binary "
        "that its installation downloads was not tried. By its interface after KafkaJS; one scene by callbacks.",
    ),
    Client("rskafka (Rust)", ("test_rskafka*",), "At least once: it has neither groups, idempotence nor transactions."),
    Client("Quix Streams (Python)", ("test_quixstreams*",), 'With `processing_guarantee="exactly-once"`.'),
    Client(
        "Services under test: FastStream, faust-streaming, testcontainers' interface",
        ("test_frameworks*",),
        "In a project of their own, with the fixture `oncelog_broker`.",
    ),
    Client(
        "All of these, over SASL_SSL and with rules",
        ("test_secured_*",),
        "Each produces, commits a transaction and consumes in a group (those that have it by KIP-848, too) as a user "
        "with exactly the rights for it. A dash: the client has no such login.",
    ),
    Client(
        "Clients while another node takes over",
        ("test_takeover*",),
        "Transactions, a copier in a group and a reader, ten times each; members of groups of each protocol, five "
        "times. [What they see](../operate/standby.md#what-clients-see), and why [some begin again]"
        "(../clients/client-notes.md).",
    ),
    Client("oncelog's own client", ("test_client_against_kafka*",), "The same tests also run against Apache Kafka."),
    Client("Apicurio Registry", ("test_apicurio*",), "No client: a schema registry, which our serializers ask."),
    Client(
        "Apache Kafka's tools over our files",
        (
            "test_kafka_decoders*",
            "test_kafka_log_*",
            "test_kafka_partition_*",
            "test_kafka_scripts*",
            "test_demo_isolation_against_kafka*",
        ),
        "No client: Kafka's classes read what this broker writes, and Kafka's broker and scripts are compared with.",
    ),
)


class Unavailable(Exception):
    """Why a client is not available here."""


def main(arguments: list[str]) -> int:
    match arguments:
        case ["prepare"]:
            return prepare()
        case ["table", results]:
            print(table(Path(results)))
            return 0
        case ["table", results, page]:
            Path(page).write_text(table(Path(results)) + "\n", encoding="utf-8")
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def prepare() -> int:
    PLACE.mkdir(exist_ok=True)
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("Apache Kafka (Java)", prepare_java),
        ("Apache Kafka's own tests (Java)", prepare_kafkas_tests),
        ("Kafka Connect, MirrorMaker 2 (Java)", prepare_connect),
        ("Flink (Java)", prepare_flink),
        ("franz-go, Sarama, kafka-go (Go)", prepare_go),
        ("rskafka (Rust)", prepare_rust),
        ("KafkaJS (Node)", prepare_node),
        ("@confluentinc/kafka-javascript (Node)", prepare_confluentjs),
        ("kcat", prepare_kcat),
        ("FastStream, faust-streaming (Python)", prepare_frameworks),
        ("Quix Streams (Python)", prepare_quixstreams),
        ("sslyze", prepare_sslyze),
        ("Prometheus", prepare_prometheus),
        ("Apicurio Registry", prepare_apicurio),
    )
    return prepare_each(steps)


def prepare_each(steps: Iterable[tuple[str, Callable[[], str]]]) -> int:
    """Prepare what can be had here; returns an exit code."""
    failed = False
    for name, step in steps:
        started = time.monotonic()
        try:
            what = step()
        except Unavailable as why:
            print(f"  SKIPPED  {name}: {why}", flush=True)
        except subprocess.CalledProcessError as error:
            failed = True
            print(f"  FAILED   {name}: {' '.join(map(str, error.cmd))}\n{error.stdout}", flush=True)
        else:
            print(f"  ready    {name}: {what} ({time.monotonic() - started:.0f} s)", flush=True)
    return int(failed)


def prepare_java() -> str:
    """Kafka's jars by Maven, and our programs compiled against them."""
    need("java", "javac", "mvn")
    # The smoke test's jars are in their own folder: their names clash with others.
    for project, place in (("pom.xml", "kafka"), ("smoke/pom.xml", "kafka-tests")):
        fetch_jars(SOURCES / "java" / project, PLACE / place)
    classes = PLACE / "java"
    sources = sorted((SOURCES / "java").glob("*.java"))
    if sources:
        jars = f"{PLACE}/kafka/*:{PLACE}/kafka-tests/*"
        call("javac", "-Xlint:all,-processing,-classfile", "-cp", jars, "-d", classes, *sources)
    return jar_version("kafka-clients")


def prepare_kafkas_tests() -> str:
    """Kafka's test jars and JUnit by Maven, and our stand-in for its test cluster compiled against them."""
    need("java", "javac", "mvn")
    jars = PLACE / "kafkas-tests"
    fetch_jars(ROOT / "tests" / "suites" / "pom.xml", jars)
    sources = sorted((ROOT / "tests" / "suites" / "java").rglob("*.java"))
    class_path = f"{jars}/*:{PLACE}/kafka/*"
    # Libraries of Kafka's refer to annotations that are not among the jars.
    classes = PLACE / "kafkas-tests-java"
    call("javac", "-Xlint:all,-processing,-classfile", "-cp", class_path, "-d", classes, *sources)
    # Sources of plugins that Connect's tests compile: they look for them in a folder.
    with zipfile.ZipFile(next(jars.glob("connect-runtime-*-test.jar"))) as archive:
        archive.extractall(classes, [name for name in archive.namelist() if name.startswith("test-plugins/")])
    return jar_version("kafka-test-common-runtime", "kafkas-tests")


def prepare_connect() -> str:
    """In a folder of its own: its web server has no place among the jars of the clients."""
    need("java", "mvn")
    fetch_jars(SOURCES / "java" / "connect" / "pom.xml", PLACE / "connect")
    return jar_version("connect-runtime", "connect")


def prepare_flink() -> str:
    """Flink's jars, with the client that its connector brings, and our job compiled against them."""
    need("java", "javac", "mvn")
    fetch_jars(SOURCES / "java" / "flink" / "pom.xml", PLACE / "flink")
    job = SOURCES / "java" / "flink" / "FlinkJob.java"
    call("javac", "-Xlint:all,-processing,-classfile", "-cp", f"{PLACE}/flink/*", "-d", PLACE / "flink-job", job)
    return f"{jar_version('flink-runtime', 'flink')}, connector {jar_version('flink-connector-kafka', 'flink')}"


def fetch_jars(project: Path, place: Path) -> None:
    stamp = place / ".pom.xml"
    if not is_same(project, stamp):
        shutil.rmtree(place, ignore_errors=True)
        call("mvn", "-q", "-B", "-f", project, "dependency:copy-dependencies")
        shutil.copy(project, stamp)


def prepare_go() -> str:
    need("go")
    call("go", "build", "-o", PLACE / "go" / "interop", ".", cwd=SOURCES / "go")
    # kgo's own tests, as a program.
    call("go", "test", "-c", "-o", PLACE / "go" / "kgo.test", "github.com/twmb/franz-go/pkg/kgo", cwd=SOURCES / "go")
    call("go", "build", "-o", f"{PLACE}/go/", "./sarama", "./kafkago", cwd=SOURCES / "go")
    wanted = ("franz-go v", "sarama v", "kafka-go v")
    lines = (SOURCES / "go" / "go.mod").read_text().splitlines()
    return ", ".join(line.split()[1] for line in lines if any(each in line for each in wanted))


def prepare_rust() -> str:
    need("cargo")
    call("cargo", "build", "-q", "--release", "--locked", "--target-dir", PLACE / "rust", cwd=SOURCES / "rust")
    lines = (SOURCES / "rust" / "Cargo.toml").read_text().splitlines()
    return next(line.split('"')[1].lstrip("=") for line in lines if line.startswith("rskafka"))


def prepare_node() -> str:
    need("node", "npm")
    fetch_node_packages("node")
    return f"kafkajs, Grafana's schema, node {answer('node', '--version')}"


def prepare_confluentjs() -> str:
    """Built from the sources in its package: its own installation would download a binary from GitHub."""
    need("node", "npm", "g++", "make")
    prefix = Path(answer("node", "-p", "process.execPath")).resolve().parent.parent
    headers = {
        prefix / "include/node/node.h": "Node's headers",
        Path("/usr/include/openssl/ssl.h"): "OpenSSL's headers",
    }
    if missing := [f"{what} ({path})" for path, what in headers.items() if not path.exists()]:
        raise Unavailable(f"{' and '.join(missing)} not found here")
    fetch_node_packages("confluentjs", lambda packages: build_confluentjs(packages, prefix))
    return f"with librdkafka, node {answer('node', '--version')}"


def build_confluentjs(packages: Path, prefix: Path) -> None:
    environment = {
        **os.environ,
        "CKJS_LINKING": "dynamic",  # else librdkafka downloads the sources of OpenSSL, curl and zstd from GitHub
        "PYTHON": sys.executable,
        "JOBS": "1",  # its rules say nothing of the order of configure and build
        "MAKEFLAGS": f"-l{2 * (os.cpu_count() or 1)}",  # it builds librdkafka with -j, which is without a bound
    }
    flags = ("--foreground-scripts", "--build-from-source", f"--nodedir={prefix}")
    call("npm", "rebuild", "@confluentinc/kafka-javascript", *flags, cwd=packages, environment=environment)


def fetch_node_packages(name: str, build: Callable[[Path], None] | None = None) -> None:
    packages = PLACE / name
    packages.mkdir(exist_ok=True)
    lock, stamp = SOURCES / name / "package-lock.json", packages / "node_modules" / ".lock.json"
    for file in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name / file, packages / file)
    if not is_same(lock, stamp):
        call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=packages)
        if build is not None:
            build(packages)
        shutil.copy(lock, stamp)


def prepare_kcat() -> str:
    if shutil.which("kcat") is None:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise Unavailable("kcat is not installed, and only root on Debian can install it here (apt install kcat)")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        call("apt-get", "update", "-qq", environment=environment)
        call("apt-get", "install", "-y", "-qq", "--no-install-recommends", "kcat", environment=environment)
    return answer("kcat", "-V").split("Version ")[1].split()[0]


def prepare_frameworks() -> str:
    """A project as its users have it: an environment with the frameworks, pytest, and oncelog."""
    return ", ".join(line for line in make_environment("frameworks", "-e", ROOT) if line.startswith("fa"))


def prepare_quixstreams() -> str:
    return ", ".join(make_environment("quixstreams"))


def prepare_sslyze() -> str:
    """No client: it judges what a listener with TLS offers."""
    return ", ".join(make_environment("sslyze"))


def prepare_prometheus() -> str:
    """No client: it evaluates the dashboard. Debian's package, unpacked: installed, it would be a service."""
    need("apt-get", "dpkg")
    program = PLACE / "prometheus" / "usr" / "bin" / "prometheus"
    if not program.exists():
        if os.geteuid() == 0:
            call("apt-get", "update", "-qq")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                call("apt-get", "download", "-qq", "prometheus", cwd=Path(scratch))
            except subprocess.CalledProcessError as error:
                raise Unavailable(f"its package cannot be downloaded: {error.stdout.strip()}") from error
            call("dpkg", "-x", *Path(scratch).glob("*.deb"), PLACE / "prometheus")
    return answer(str(program), "--version").split()[2]


def prepare_apicurio() -> str:
    """No client: a schema registry, 109 MB. Its version 3.0 is the last that runs with Java 17."""
    need("java", "mvn")
    place = PLACE / "apicurio"
    if not (place / f"apicurio-registry-app-{APICURIO}-runner.jar").exists():
        artifact = f"io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
        with tempfile.TemporaryDirectory() as scratch:
            try:
                call("mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}")
            except subprocess.CalledProcessError as error:
                raise Unavailable(f"Maven has not {artifact}: {error.stdout.strip()[-200:]}") from error
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            call("tar", "xzf", *Path(scratch).glob("*.tar.gz"), "-C", place)
    return APICURIO


def make_environment(name: str, *others: object) -> list[str]:
    """A virtual environment with what requirements.txt names, and others; returns its lines."""
    place, wanted = PLACE / name, SOURCES / name / "requirements.txt"
    stamp = place / ".requirements.txt"
    if not is_same(wanted, stamp):
        shutil.rmtree(place, ignore_errors=True)
        call(sys.executable, "-m", "venv", place)
        call(place / "bin" / "python", "-m", "pip", "install", "-q", "-r", wanted, *others)
        shutil.copy(wanted, stamp)
    return wanted.read_text().splitlines()


def need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"{' and '.join(missing)} not found here")


def is_same(source: Path, stamp: Path) -> bool:
    return stamp.exists() and stamp.read_bytes() == source.read_bytes()


def call(*command: object, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def answer(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout.strip()


def jar_version(name: str, place: str = "kafka") -> str:
    jars = sorted((PLACE / place).glob(f"{name}-[0-9]*.jar"))
    if not jars:
        raise Unavailable(f"Maven did not fetch {name}")
    return jars[0].stem.removeprefix(f"{name}-")


class Case(NamedTuple):
    module: str
    sentence: str
    parameters: str
    outcome: str
    version: str
    secured: str
    """The client and how it logged in over SASL_SSL, if that is what it shows."""


def cases_of(results: Path) -> list[Case]:
    found = []
    for element in ElementTree.parse(results).iter("testcase"):
        module = element.get("classname", "").split(".")[-1]
        name, _, parameters = element.get("name", "").partition("[")
        outcome = "passed"
        for tag, word in (("skipped", "not run"), ("failure", "failed"), ("error", "failed")):
            if element.find(tag) is not None:
                outcome = word
        properties = {each.get("name"): each.get("value", "") for each in element.iter("property")}
        sentence = name.removeprefix("test_").replace("_", " ")
        version, secured = properties.get("client_version", ""), properties.get("secured", "")
        found.append(Case(module, sentence, parameters.removesuffix("]"), outcome, version, secured))
    return found


def client_of(module: str) -> Client | None:
    for client in CLIENTS:
        if any(fnmatch.fnmatchcase(module, pattern) for pattern in client.modules):
            return client
    return None


def table(results: Path) -> str:
    """The page: a row for each client, then what was run with it, sentence by sentence."""
    cases = cases_of(results)
    lines = [
        "# Works with",
        "",
        "Unmodified clients, run against this broker by `make interop`. `make proof WHAT=works-with` writes this page",
        "from the results of a run: a scene is listed here because it was run.",
        "",
        "| client | version | scenes | result |",
        "|---|---|---|---|",
    ]
    for client in CLIENTS:
        own = [case for case in cases if client_of(case.module) == client]
        versions = sorted({case.version for case in own if case.version})
        lines.append(f"| {client.name} | {', '.join(versions) or '–'} | {len(scenes(own))} | {result(own)} |")
    for client in CLIENTS:
        own = [case for case in cases if client_of(case.module) == client]
        lines += ["", f"## {client.name}", ""]
        lines += [client.limits, ""] if client.limits else []
        lines += logins_table(secured) if (secured := [case for case in own if case.secured]) else []
        for module in sorted({case.module for case in own}):
            lines += [f"`tests/interop/{module}.py`", ""]
            for sentence, group in scenes([case for case in own if case.module == module]).items():
                outcome = result(group)
                lines.append(f"- {sentence}" + ("" if outcome == "passed" else f" — **{outcome}**"))
            lines.append("")
        lines.pop()
    return "\n".join(lines)


def logins_table(cases: list[Case]) -> list[str]:
    """A row for each client, a column for each way to log in; over which brokers does not show."""
    cells: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        client, _, mechanism = case.secured.partition(", ")
        cells.setdefault((client, mechanism), []).append(case)
    clients = dict.fromkeys(client for client, _ in cells)
    mechanisms = dict.fromkeys(mechanism for _, mechanism in cells)
    lines = [f"| client | {' | '.join(mechanisms)} |", "|---" * (len(mechanisms) + 1) + "|"]
    for client in clients:
        shown = [result(found) if (found := cells.get((client, each))) else "–" for each in mechanisms]
        lines.append(f"| {client} | {' | '.join(shown)} |")
    return [*lines, ""]


def scenes(cases: list[Case]) -> dict[str, list[Case]]:
    """Cases by what they show: those of one test with other parameters are one scene."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.sentence, []).append(case)
    return grouped


def result(cases: list[Case]) -> str:
    for outcome in ("failed", "not run"):
        count = sum(case.outcome == outcome for case in cases)
        if count:
            return outcome if count == len(cases) else f"{count} of {len(cases)} {outcome}"
    return "passed" if cases else "not run"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
