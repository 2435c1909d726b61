"""What records in files outlive, as the store's Durability.

Owns: the answer alone; how a round is written is `file_sync`'s, what the next run will know `boot_mark`'s.
"""

from oncelog.broker.log.store import Outlives
from oncelog.broker.storage.local.boot_mark import BootMark
from oncelog.broker.storage.local.data_directory import RESTORED
from oncelog.broker.storage.local.file_sync import FileSync
from oncelog.broker.turns.ports import Disk


class LocalDurability:
    __slots__ = ("_disk", "_file_sync", "_mark", "may_be_older", "outlives")

    def __init__(self, disk: Disk, file_sync: FileSync, mark: BootMark) -> None:
        self._disk = disk
        self._file_sync = file_sync
        self._mark = mark
        self.may_be_older = disk.exists(RESTORED)
        self.outlives = Outlives.POWER_CUT if file_sync.policy == "fsync" else Outlives.KILL

    @property
    def rounds_are_whole(self) -> bool:
        """Once the journal is in use; it may be begun late, on a full disk. Under `os` the order of appends outlives a
        kill, and nothing is promised for a power cut."""
        return self._file_sync.is_journal_settled

    def answer_ahead(self) -> bool:
        file_sync = self._file_sync
        return file_sync.is_journal_settled and self._mark.are_possible and file_sync.write_ahead()

    @property
    def may_be_lost(self) -> bool:
        return self._mark.may_be_lost

    def settle(self) -> None:
        self._mark.settle()

    def keep_place(self) -> None:
        if self.may_be_older:
            self._disk.delete(RESTORED)
            self._disk.sync_dir("")
            self.may_be_older = False
