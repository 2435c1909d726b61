"""The directory of a partition: its names, and `partition.metadata`, which has its topic id.

Owns: the patterns of names (Kafka's), the format of the file, Kafka's to the byte (KIP-516). Does not own: the other
files of a directory, which topics exist.
Invariant: a name counts as one of ours only if this module would have given exactly that name.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID

from oncelog.broker.turns.ports import Disk

PARTITION_METADATA = "partition.metadata"

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})\Z")
_DELETED = re.compile(r"[a-zA-Z0-9._-]{1,200}-(0|[1-9][0-9]{0,9})\.([0-9a-f]{32})-delete\Z")
_METADATA = re.compile(rb"version: 0\ntopic_id: ([a-zA-Z0-9_-]{22})\n?\Z")
# A file name has at most 255 bytes, a topic's name up to 249.
_LONGEST_PREFIX = 200


def directory_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def partition_of(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a partition's directory; None for any other name."""
    match = _PARTITION.match(name)
    return (match[1], int(match[2])) if match else None


def deleted_name(topic: str, partition: int, topic_id: UUID) -> str:
    """The name of a partition's directory while it is deleted."""
    return f"{topic[:_LONGEST_PREFIX]}-{partition}.{topic_id.hex}-delete"


def deleted_partition(name: str) -> tuple[UUID, int] | None:
    """(topic id, partition) of a directory whose deletion has begun; None for any other name."""
    match = _DELETED.match(name)
    return (UUID(hex=match[2]), int(match[1])) if match else None


def stray_name(topic: str, partition: int, number: int) -> str:
    """The new name of a directory that occupies the name of a partition."""
    return f"{topic[:_LONGEST_PREFIX]}-{partition}.{number}-stray"


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return b"version: 0\ntopic_id: " + urlsafe_b64encode(topic_id.bytes).rstrip(b"=")


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    """The topic id of a directory; None if its file is missing or malformed. Raises OSError if it cannot be read."""
    try:
        match = _METADATA.match(disk.read_bytes(f"{directory}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return None
    return UUID(bytes=urlsafe_b64decode(match[1] + b"==")) if match else None
