"""Whether a power cut may have taken what an earlier run answered before it was synced.

Owns: the file `boot`, which names the boot of the machine in which every transaction that could lack what was answered
was aborted. What is written but not synced outlives the process and not the machine, so only another boot can lack it.
Does not own: what is aborted (the transaction coordinator), what is answered ahead (`broker.log.rounds`).

Invariants
- While the file names this boot, nothing that an earlier run answered is lost. After a failed sync even the running
  system may lose it, so the file is emptied then, and the next start aborts.
- Nothing is answered ahead unless the file names this boot. So where it is missing, as in what Apache Kafka or an
  earlier version has left, nothing was.
"""

from contextlib import suppress

from oncelog.broker.ports import Disk

NAME = "boot"
_UNSETTLED = b"unsettled"


class BootMark:
    """The store's AnswersAhead."""

    def __init__(self, disk: Disk, *, was_clean: bool) -> None:
        """`was_clean`: the last run has synced everything."""
        self._disk = disk
        boot_id = disk.boot_id()
        self._content = None if boot_id is None else boot_id.encode()
        found: bytes | None = None
        if disk.exists(NAME):
            try:
                found = disk.read_bytes(NAME)
            except OSError:
                found = b""  # as if it named another boot
        self.is_current = found is not None and found == self._content
        """The file names this boot."""
        self.may_be_lost = found == _UNSETTLED or not (found is None or was_clean or self.is_current)
        self._is_settled = False

    @property
    def are_possible(self) -> bool:
        return self.is_current

    def settle(self) -> None:
        self._is_settled = True
        if self._content is not None and not self.is_current:
            self._disk.write_atomically(NAME, self._content)
            self.is_current = True
        self.may_be_lost = False

    def step(self) -> None:
        """Once a second: what could not be noted is tried again."""
        if self._is_settled and not self.is_current:
            with suppress(OSError):
                self.settle()

    def keep(self) -> None:
        """Before a clean stop: should not all be aborted yet, the next start does that. Raises OSError."""
        if self.may_be_lost:
            self._disk.write_atomically(NAME, _UNSETTLED)

    def forget(self) -> None:
        """A sync has failed."""
        with suppress(OSError):
            self._disk.open(NAME).truncate(0)
