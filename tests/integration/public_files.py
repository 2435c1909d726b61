"""Compose files of public projects, as these publish them: where each is from, and what of it is run.

Owns: the table, and fetching. A file is read out of a release in its package registry, by the registry's ordinary
client, and must have the digest that stands here: no such file is kept in this repository, and none changes unseen.
"""

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class Unavailable(Exception):
    """The client of a registry is not installed."""


@dataclass(frozen=True, slots=True)
class PublicFile:
    name: str
    registry: str
    """go: a module; cargo: a crate."""
    package: str
    version: str
    path: str
    """The path below the package's root."""
    licence: str
    sha256: str
    service: str
    """The service that is started."""
    inside: str
    """Its address for other services."""
    published: str | None = None
    """Its address on this machine; None where the file offers none that is advertised."""
    left_out: str = ""
    """The other services, and why they are not started."""


PUBLIC_FILES = (
    PublicFile(
        "jaeger",
        "go",
        "github.com/jaegertracing/jaeger",
        "v1.76.0",
        "docker-compose/kafka/docker-compose.yml",
        "Apache-2.0",
        "5af77b6c980db85cc81428cac007a026ef5e706cfb3a70ba898e2c5a732b103c",
        "kafka",
        "kafka:9092",
        left_out="zookeeper: not needed; jaeger-*: Jaeger's images, which cannot be pulled everywhere",
    ),
    PublicFile(
        "confluent-kafka-go",
        "go",
        "github.com/confluentinc/confluent-kafka-go/v2",
        "v2.11.1",
        "kafka/testresources/docker-compose.yaml",
        "Apache-2.0",
        "160d6b2a36ecda41df55b5391c98c95ab2625299b8dc11b6ccca316ed603599e",
        "kafka",
        "kafka:19092",
        "localhost:9092",
        left_out="zookeeper, zookeeper_auth: not needed; kafka_auth: its one listener is SASL_PLAINTEXT",
    ),
    PublicFile(
        "watermill-feed",
        "go",
        "github.com/ThreeDotsLabs/watermill",
        "v1.5.1",
        "_examples/basic/2-realtime-feed/docker-compose.yml",
        "MIT",
        "b728c1217d845db47bb1ab1878a0dce9d502c640d08cb5a78171848d2afc29ad",
        "kafka",
        "kafka:9092",
        left_out="zookeeper: not needed; producer, consumer: golang's image, which cannot be pulled everywhere",
    ),
    PublicFile(
        "watermill-webhooks",
        "go",
        "github.com/ThreeDotsLabs/watermill",
        "v1.5.1",
        "_examples/real-world-examples/sending-webhooks/docker-compose.yml",
        "MIT",
        "fcc064fc4ae15456ab11790f2687bc60dcdab0dd9968b6ec8cfcbf4b95f22c9e",
        "kafka",
        "kafka:9092",
        left_out="zookeeper: not needed; webhooks-server, router, producer: golang's image, as above",
    ),
    PublicFile(
        "dd-trace-go",
        "go",
        "github.com/DataDog/dd-trace-go/v2",
        "v2.12.0",
        "docker-compose.yaml",
        "Apache-2.0 OR BSD-3-Clause",
        "5250bb3678458b8ffeea5a8dc924f9f3e0152e4e5d5f6e619650a0c02f41b138",
        "kafka",
        "localhost:9092",
        "localhost:9092",
        left_out="aerospike, cassandra, mysql and other stores that have nothing to do with Kafka",
    ),
    PublicFile(
        "rust-rdkafka",
        "cargo",
        "rdkafka",
        "0.39.0",
        "docker-compose.yaml",
        "MIT",
        "238fccfeeb2db5e7ff3521070b52cd60e6ffa4cd84f4e60106d109ba436026ca",
        "kafka",
        "localhost:9092",
        "localhost:9092",
    ),
)


def fetch(file: PublicFile, scratch: Path) -> Path:
    """The file in the cache of the registry's client, which fetches it once. Raises Unavailable without that client."""
    root = {"go": _go_module, "cargo": _crate}[file.registry](file, scratch)
    path = root / file.path
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != file.sha256:
        raise ValueError(f"{file.package} {file.version}: {file.path} has the digest {found}, not {file.sha256}")
    return path


def _go_module(file: PublicFile, scratch: Path) -> Path:
    shown = _run(["go", "mod", "download", "-json", f"{file.package}@{file.version}"], scratch)
    return Path(json.loads(shown)["Dir"])


def _crate(file: PublicFile, scratch: Path) -> Path:
    """Cargo fetches for a package that depends on it."""
    (scratch / "src").mkdir()
    (scratch / "src" / "lib.rs").touch()
    (scratch / "Cargo.toml").write_text(
        '[package]\nname = "scratch"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{file.package} = {{ version = "={file.version}", default-features = false }}\n'
    )
    packages = json.loads(_run(["cargo", "metadata", "--format-version", "1"], scratch))["packages"]
    (manifest,) = (each["manifest_path"] for each in packages if each["name"] == file.package)
    return Path(manifest).parent


def _run(command: list[str], folder: Path) -> str:
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]}, which fetches it, is not installed")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=100).stdout
