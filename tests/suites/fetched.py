"""Where the suites of clients are, and how they are fetched and built.

Each comes from its registry by its ordinary package manager: a Go module's zip has its tests, kafka-python's are in its
package of sources, and librdkafka's in the sources that Confluent's package for Node brings. Nothing of them is in this
repository: all is built in `.suites`. Go's versions are those of go/go.mod beside this file.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tools.interop import PLACE as INTEROP
from tools.interop import ROOT, Unavailable, call, need

PLACE = ROOT / ".suites"
BIN = PLACE / "bin"
GO = ROOT / "tests/suites/go"
KGO, KAFKA_GO, SARAMA = "github.com/twmb/franz-go", "github.com/segmentio/kafka-go", "github.com/IBM/sarama"
"""Modules."""
LIBRDKAFKA = PLACE / "librdkafka"
_WITH_ZSTD = "#define WITH_ZSTD 1\n"
_SARAMA = PLACE / "sarama"
_IN_NPM = INTEROP / "confluentjs/node_modules/@confluentinc/kafka-javascript"
KAFKA_PYTHON = "3.0.12"
_SERVICE = """\
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
"""
"""Stands in where a broker is there already."""
_SEVERAL_REPLICAS = re.compile(r"(ReplicationFactor:\s+)[23]\b")


@cache
def go_module(module: str) -> tuple[str, Path]:
    """Its version, and where its sources are."""
    line = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", module], cwd=GO, capture_output=True, text=True, check=True
    ).stdout.split()
    return line[0], Path(line[1])


def build_go(program: str, module: str, folder: str = "") -> str:
    need("go")
    call("go", "test", "-c", "-o", BIN / program, f"{module}{folder}", cwd=GO)
    return go_module(module)[0]


def build_sarama() -> str:
    """Build from a copy in which the topics of its tests have one replica."""
    need("go")
    version, sources = go_module(SARAMA)
    if not (BIN / "sarama.test").exists():
        shutil.rmtree(_SARAMA, ignore_errors=True)
        shutil.copytree(sources, _SARAMA, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", _SARAMA], check=True)  # a module's folders are read-only
        for source in _SARAMA.glob("functional*_test.go"):
            source.write_text(_SEVERAL_REPLICAS.sub(r"\g<1>1", source.read_text()))
        call("go", "test", "-c", "-tags=functional", "-o", BIN / "sarama.test", ".", cwd=_SARAMA)
        call("go", "build", "-o", BIN / "toxiproxy", "github.com/Shopify/toxiproxy/v2/cmd/server", cwd=GO)
    return version


def build_librdkafka() -> str:
    """Build it with zstd, whose headers are the system's: libzstd-dev of Debian."""
    need("make", "g++")
    if not (_IN_NPM / "deps/librdkafka/tests/test.c").exists():
        raise Unavailable("its sources come with @confluentinc/kafka-javascript: `python tools/interop.py prepare`")
    if not ((LIBRDKAFKA / "tests/test-runner").exists() and _WITH_ZSTD in (LIBRDKAFKA / "config.h").read_text()):
        shutil.rmtree(LIBRDKAFKA, ignore_errors=True)
        shutil.copytree(_IN_NPM / "deps/librdkafka", LIBRDKAFKA, symlinks=True)
        call("sh", "-c", "make distclean; ./configure --disable-curl --enable-zstd --disable-gssapi", cwd=LIBRDKAFKA)
        call("make", "-j2", "libs", cwd=LIBRDKAFKA)
        call("make", "-j2", "-C", "tests", "test-runner", cwd=LIBRDKAFKA)
    return librdkafka_version()


def librdkafka_version() -> str:
    return str(json.loads((_IN_NPM / "package.json").read_text())["librdkafka"])


def fetch_kafka_python() -> str:
    """With two files that its tests import and its package lacks."""
    unpack_sdist("kafka-python", KAFKA_PYTHON)
    tests = sdist_of("kafka-python", KAFKA_PYTHON) / "test"
    (tests / "__init__.py").touch()  # else Python's own package of this name comes first
    (tests / "service.py").write_text(_SERVICE)
    return KAFKA_PYTHON


def sdist_of(name: str, version: str) -> Path:
    return PLACE / f"{name.replace('-', '_')}-{version}"


def unpack_sdist(name: str, version: str) -> None:
    if sdist_of(name, version).exists():
        return
    call(
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", PLACE / "sdist",
        f"{name}=={version}",
    )  # fmt: skip
    with tarfile.open(next((PLACE / "sdist").glob(f"{name.replace('-', '[-_]')}-{version}.tar.gz"))) as archive:
        archive.extractall(PLACE, filter="data")


BUILDS: Mapping[str, Callable[[], str]] = {
    "franz-go": lambda: build_go("kgo.test", KGO, "/pkg/kgo"),
    "kafka-go": lambda: build_go("kafka-go.test", KAFKA_GO),
    "Sarama": build_sarama,
    "librdkafka": build_librdkafka,
    "kafka-python": fetch_kafka_python,
}
