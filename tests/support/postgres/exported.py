"""Tables that are read and filled at once, as commands do, and data directories made of them and back."""

from typing import TypeVar

from oncelog.broker.storage.shared.tables import Statement
from oncelog.broker.turns.completion import Completion
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.tools.log.tables.content import TablesContent
from oncelog.tools.log.tables.export import write
from oncelog.tools.log.tables.filling import Source, fill
from tests.fakes.database import Database

T = TypeVar("T")
_EPOCH = 1


class InstantTables:
    """A database as a transaction sees it: each statement has an answer at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, statement: Statement[T]) -> Completion[T]:
        return Completion.of(self.run_now(statement))

    def run_now(self, statement: Statement[T]) -> T:
        answer: T = self._database.execute(statement)
        return answer


def exported(database: Database) -> MemoryDisk:
    disk = MemoryDisk()
    write(TablesContent(InstantTables(database)), disk)
    return disk


def imported(disk: MemoryDisk) -> Database:
    database = Database(epoch=_EPOCH)
    fill(Source(disk), InstantTables(database), _EPOCH)
    return database


def contents(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: bytes(inode.data) for name, inode in disk.files.items()}
