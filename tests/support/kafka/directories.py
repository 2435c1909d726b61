"""Log directories as Apache Kafka leaves them, without Kafka: recorded, or written by our own encoders."""

import hashlib
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

from oncelog.protocol.generated import (
    partition_record,
    topic_record,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.conformance.kafka_directory import ARCHIVE, SHOWN
from tests.support.logs.archives import unpack

CLUSTER_ID = "3e8676b31ce94198ab429f"
DIRECTORY_ID = UUID("22222222-2222-4222-a222-222222222222")
BEGIN, END, ABORT = bytes((1, 23, 0, 0)), bytes((1, 24, 0, 0)), bytes((1, 25, 0, 0))
"""The boundaries of a metadata transaction, encoded."""


def recorded(directory: Path) -> tuple[Path, dict[str, Any]]:
    """A directory of Kafka 3.9 after a clean stop, and what Kafka showed of it."""
    unpack(ARCHIVE, directory)
    return directory / "data", json.loads(SHOWN.read_text())


def encoded(record: Any, version: int | None = None) -> bytes:
    """A metadata record in its newest version, unless another is wanted."""
    module: Any = import_module(type(record).__module__)
    version = module.VERSIONS[-1] if version is None else version
    return b"".join((bytes((1, module.API_KEY, version)), *module.encode(record, version)))


def metadata_batch(values: Sequence[bytes], base_offset: int = 0) -> bytes:
    records = [Record(base_offset + index, 0, None, value, ()) for index, value in enumerate(values)]
    return encode_batch(records, base_offset=base_offset, partition_leader_epoch=1)


def topic_with(name: str, topic_id: UUID, *partitions: partition_record.PartitionRecord) -> list[Any]:
    return [topic_record.TopicRecord(name=name, topic_id=topic_id), *partitions]


def partition_on(
    topic_id: UUID, index: int, replicas: Sequence[int], leader: int, isr: Sequence[int] | None = None, **more: Any
) -> partition_record.PartitionRecord:
    return partition_record.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=leader,
        leader_epoch=3,
        partition_epoch=5,
        **more,
    )


def write_kafka_dir(directory: Path, values: Sequence[bytes], **properties: str) -> Path:
    """A log directory of node 1 with this metadata, and no partitions yet."""
    metadata = directory / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    (metadata / f"{0:020d}.log").write_bytes(metadata_batch(values) if values else b"")
    write_meta(directory, **properties)
    return directory


def write_meta(directory: Path, **properties: str) -> None:
    directory.mkdir(exist_ok=True)
    given = {"version": "1", "cluster.id": CLUSTER_ID, "node.id": "1"} | {
        name.replace("_", "."): value for name, value in properties.items()
    }
    lines = [f"{name}={value}\n" for name, value in given.items() if value]
    (directory / "meta.properties").write_text("".join(("#\n", *lines)))


def write_partition(directory: Path, name: str, topic_id: UUID, *segments: Sequence[bytes]) -> None:
    """Records, one batch each, in these segments."""
    from oncelog.broker.storage.local.partition_directory import encode_partition_metadata

    (directory / name).mkdir()
    (directory / name / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    offset = 0
    for values in segments:
        file = directory / name / f"{offset:020d}.log"
        batches = []
        for value in values:
            batches.append(encode_batch([Record(offset, 1_000, None, value, ())], base_offset=offset))
            offset += 1
        file.write_bytes(b"".join(batches))


def fingerprint(directory: Path) -> dict[str, tuple[int, str]]:
    """The modification time and the content of everything in it."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in (directory, *sorted(directory.rglob("*")))
    }
