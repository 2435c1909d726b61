"""Kafka's checkpoint files: one offset for each partition, as text.

Owns: their form (version 0, a count, then `topic partition offset` lines). They are written for Kafka and its tools;
recovery here relies on `flush_journal`, whose entries carry a topic id and a checksum.
"""

from collections.abc import Iterable

from broker.ports import Disk

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
_VERSION = 0


def write_checkpoint(disk: Disk, name: str, offsets: Iterable[tuple[str, int, int]]) -> None:
    lines = [f"{topic} {partition} {offset}\n" for topic, partition, offset in offsets]
    disk.write_atomically(name, f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode())
