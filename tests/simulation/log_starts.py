"""A start in simulation that ends before it serves: it is killed between any two operations, or during one.

Owns: what such a start begins to do, and where it ends. It may be one with another flush policy, or the settlement
before a repair, both of which end the use of the journal; the start after it finds what this one has left half done.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.sections import LogKey
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.logs import Logs

_KINDS = ("fsync", "fsync", "os", "os", "memory", "settlement")
_MOST_OPERATIONS = 45
"""About as many as the longest of them has."""
Begin = Callable[[MemoryDisk, str], tuple[Logs, Sequence[PartitionLog]]]
"""Opens every log of a disk with a policy, and serves none yet."""


def start_in_vain(disk: MemoryDisk, random: Random, begin: Begin, directories: Mapping[LogKey, str]) -> MemoryDisk:
    """Return what the next start finds."""
    for _ in range(random.randint(1, 2)):
        disk.operations_left, disk.tears = random.randint(0, _MOST_OPERATIONS), False
        kind = random.choice(_KINDS)
        try:
            if kind == "settlement":
                Logs(disk).store.settle_journal(directories)
            else:
                begin(disk, kind)[0].store.begin_serving(is_recovered=True)
        except PowerCut:
            pass
        disk.operations_left = None
        disk = disk.kill()
    return disk
