"""The data directory of a broker in memory, as files and back."""

from pathlib import Path
from random import Random

from oncelog.broker.storage.local.boot_mark import NAME as BOOT
from oncelog.testing.memory_disk import MemoryDisk, MemoryNotes
from tests.support.logs.damage import RealFiles


def store(disk: MemoryDisk, data_dir: Path) -> None:
    for name in disk.directories:
        (data_dir / name).mkdir(parents=True, exist_ok=True)
    for name, inode in disk.files.items():
        (data_dir / name).write_bytes(inode.data)
    (data_dir / ".lock").touch()


def load(data_dir: Path) -> MemoryDisk:
    disk = MemoryDisk()
    for path in sorted(data_dir.rglob("*")):
        name = str(path.relative_to(data_dir))
        if path.is_dir():
            disk.make_dir(name)
    for name in RealFiles(data_dir).names():
        disk.open(name).append([(data_dir / name).read_bytes()])
    if disk.exists(BOOT):
        disk.notes = MemoryNotes(Random(disk.read_bytes(BOOT)))  # no names that its runs may have had
    return disk.kill()
