"""Where a partition's log begins and up to where it is durable, according to the files of its data directory.

Owns: which file is read. Does not own: their formats. Changes nothing; a broker may be running.
With `oncelog.flush.policy=os` a broker records what is on disk only when a segment is complete: its actual high
watermark is then higher than known here.
then further on than is known here.
"""

from base64 import urlsafe_b64decode
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from oncelog.broker.storage.local.boot_mark import UNKNOWN
from oncelog.broker.storage.local.checkpoints import LOG_START, read_checkpoint
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.local.journal import Tail, read_journal
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from oncelog.tools.log.dump.decoders import metadata
from oncelog.tools.log.read_only_disk import ReadOnlyDisk

_KAFKAS_HIGH_WATERMARKS = "replication-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class KnownPoints:
    """The offsets that files record; None where no file does."""

    log_start_offset: int | None
    high_watermark: int | None


def known_points(data_dir: Path, topic: str, partition: int) -> KnownPoints:
    """Return the offsets from the flush journal, or from the checkpoints that Kafka writes."""
    disk = ReadOnlyDisk(data_dir)
    if disk.exists(FLUSHED_OFFSETS):
        topic_id = METADATA_TOPIC_ID if topic == METADATA_TOPIC else _topic_id(disk, topic)
        if topic_id is not None:
            flushed = FlushedOffsets(OverlayDisk(disk))
            points = flushed.get(topic_id, partition)
            lives = (flushed.life, flushed.left_life) if flushed.life != UNKNOWN else None
            tail = read_journal(disk, lives).tails.get((topic_id, partition))
            if points is not None or tail is not None:
                start = points.log_start_offset if points is not None else 0
                return KnownPoints(start, (tail or Tail()).end_offset(points))
    return KnownPoints(
        _checkpoint(disk, LOG_START, topic, partition), _checkpoint(disk, _KAFKAS_HIGH_WATERMARKS, topic, partition)
    )


def _checkpoint(disk: ReadOnlyDisk, name: str, topic: str, partition: int) -> int | None:
    found = [offset for *place, offset in read_checkpoint(disk, name) if place == [topic, partition]]
    return found[0] if found else None


def _topic_id(disk: ReadOnlyDisk, name: str) -> UUID | None:
    """Return the id of the topic that has this name now; journals have ids only."""
    topic_id = None
    directory = directory_of(METADATA_TOPIC, 0)
    for file in disk.list_dir(directory):
        if not file.endswith(".log"):
            continue
        try:
            for _, batch in iter_batches(memoryview(disk.read_bytes(f"{directory}/{file}"))):
                for record in decode_records(batch):
                    change = metadata(record).value
                    if isinstance(change, dict) and change["type"] == "TOPIC_RECORD" and change["data"]["name"] == name:
                        topic_id = UUID(bytes=urlsafe_b64decode(change["data"]["topicId"] + "=="))
        except ProtocolError:
            continue  # a broker may be writing it right now
    return topic_id
