"""How far each log has been cleaned: `cleaner-offset-checkpoint`, Kafka's file and form."""

from contextlib import suppress

from oncelog.broker.ports import Disk
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET, read_checkpoint, write_checkpoint


class CleanerCheckpoint:
    """How far each log has been cleaned."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offsets = {
            (topic, partition): offset for topic, partition, offset in read_checkpoint(disk, CLEANER_OFFSET)
        }

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get((topic, partition), 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[topic, partition] = offset
        self._write()

    def forget(self, topic: str) -> None:
        """The topic is gone: one that gets its name inherits nothing."""
        gone = [key for key in self._offsets if key[0] == topic]
        for key in gone:
            del self._offsets[key]
        if gone:
            with suppress(OSError):  # a full disk; the next write leaves it out
                self._write()

    def _write(self) -> None:
        write_checkpoint(self._disk, CLEANER_OFFSET, [(*key, offset) for key, offset in self._offsets.items()])
