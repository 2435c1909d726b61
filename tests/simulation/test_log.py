"""The log in simulation: nothing that was promised is lost, whatever fails and whenever."""

from random import Random

import pytest

from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes import backup
from tests.simulation.__main__ import COPY_CHANCE
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_mixes import BACKUPS, FRAMES
from tests.simulation.log_world import LogWorld

STEPS = 150
SEEDS = 60


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_what_was_promised_holds_over_every_kind_of_stop(first: int) -> None:
    for seed in range(first, first + 20):
        LogWorld(seed).run(STEPS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_a_backup_of_a_running_broker_is_its_logs_as_they_were_in_one_instant(first: int) -> None:
    """All logs of one moment, with the state of their producers, whatever is appended, compacted and deleted while the
    copy is made."""
    backups = sum(LogWorld(seed, BACKUPS).run(STEPS).backups for seed in range(first, first + 20))
    assert backups > 5 * 20


def test_every_record_of_a_batch_in_several_frames_is_kept_however_often_it_is_encoded_again() -> None:
    """Batches have another codec, full validation, and compaction. A batch that lacks a record is refused."""
    for seed in range(20):
        LogWorld(seed, FRAMES).run(STEPS)


def test_a_copy_of_several_moments_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup by `cp` of a running broker, each file as it is when its turn comes, is found by the auditor."""
    copied = backup.copied
    monkeypatch.setattr(backup, "copied", lambda disk, sizes: copied(disk, dict.fromkeys(sizes, 2**40)))
    with pytest.raises(AuditError, match="a backup is the logs as they were"):
        for seed in range(SEEDS):
            LogWorld(seed, BACKUPS).run(STEPS)


def test_no_damage_is_silent() -> None:
    """Files and directories that are gone, refused or unreadable: an error, an offline partition, and a line."""
    for seed in range(60):
        LogWorld(seed, ruin_chance=1).run(STEPS)


def test_files_of_another_copy_bring_no_record_and_cost_none() -> None:
    """The journal, or `flushed-offsets`, of a copy that ran on: no acknowledged record is replaced, none appears that
    was not sent here."""
    copies = sum(LogWorld(seed, copy_chance=COPY_CHANCE).run(STEPS).copies for seed in range(40))
    assert copies > 20


def test_a_seed_leaves_the_same_bytes_again_and_no_two_runs_one_name() -> None:
    def lived() -> MemoryDisk:
        world = LogWorld(7, copy_chance=COPY_CHANCE)
        world.run(STEPS)
        return world.logs.disk

    first, again = lived(), lived()
    assert {path: inode.data for path, inode in first.files.items()} == {
        path: inode.data for path, inode in again.files.items()
    }
    assert first.notes.notes.keys() == again.notes.notes.keys()
    copies = [first, first.kill(), first.kill(), first.crash(Random(0))]
    names = [disk.notes.new_name() for disk in (*copies, *copies)]
    assert len({*names, *first.notes.notes}) == len(names) + len(first.notes.notes)
