"""Every file of a data directory, damaged in every way, and what a start, a reader, `verify` and `repair` say of it.

The outcome is one of three: what can be rebuilt is, with a line; the partition is offline, with a line; the start is
refused by a sentence that names the file. Never a traceback, never silence, never fewer records without a word.
"""

from collections.abc import Iterator
from functools import cache

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.protocol.errors import ErrorCode
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.tools.log.check import Examination, NoDataDirectory, examine, repair
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import (
    ACKNOWLEDGED,
    END_OFFSET,
    KINDS,
    MIDDLE,
    NOTHING_DEPENDS_ON,
    TOPIC,
    Seen,
    fill,
    is_silently_harmless,
    list_offset,
    read_committed,
)

STOPS = ("kill -9", "clean stop")


@cache
def _stopped(how: str) -> MemoryDisk:
    broker = VirtualBroker("transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
    fill(broker, broker.time.wall_ms())
    broker.broker.logs.step()  # a checkpoint: nothing can be put back from the journal
    broker.time.advance(1_000)
    if how == "clean stop":
        broker.broker.logs.close()
    return broker.disk


def stopped(how: str) -> MemoryDisk:
    return _stopped(how).kill()


def cases() -> Iterator[tuple[str, str]]:
    for how in STOPS:
        for path in sorted(_stopped(how).files):
            yield how, path


EACH_DAMAGE = pytest.mark.parametrize(
    ("how", "path", "kind"), [(how, path, kind) for how, path in cases() for kind in KINDS]
)


def settled(disk: MemoryDisk) -> tuple[VirtualBroker, Seen]:
    """A start, and what is seen at once and after the check in the background."""
    broker = VirtualBroker(disk=disk)
    seen = read_committed(broker)
    broker.time.advance(5_000)
    return broker, seen if seen.error is not ErrorCode.NONE else read_committed(broker)


def judge(broker: VirtualBroker, seen: Seen, path: str) -> None:
    """All is there, or the reader gets an error, and a line of the log names the file."""
    assert seen.is_right
    if seen.error is ErrorCode.NONE:
        assert seen.missing == [] and len(seen.offsets) == len(ACKNOWLEDGED)
    else:
        assert seen.error is ErrorCode.KAFKA_STORAGE_ERROR
        offline = [line for line in broker.lines if "offline" in line]
        assert len(offline) == 1, "told once"
        assert path.rpartition("/")[0] in offline[0] and "oncelog log verify" in offline[0]


@pytest.mark.sampled(13)
@EACH_DAMAGE
def test_start_says_what_is_wrong_with_any_file(how: str, path: str, kind: str) -> None:
    disk = stopped(how)
    data = bytes(disk.files[path].data)
    KINDS[kind](disk, path)
    for start in (1, 2):  # what the first start does about it must not hide a loss from the second
        try:
            broker, seen = settled(disk)
        except StartError as error:
            assert path.partition("/")[0] in str(error)
            assert any(word in str(error) for word in ("oncelog log", "copy", "start again")), "what to do"
            continue
        judge(broker, seen, path)
        directory = path.rpartition("/")[0]
        is_named = any(path in line or f"{directory} is offline" in line for line in broker.lines)
        assert is_named or start == 2 or is_silently_harmless(path, kind, data)
        assert broker.broker.metrics.file_problems == len(broker.lines)
        disk = broker.disk.kill()


@pytest.mark.sampled(11)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", [path for how, path in cases() if how == "clean stop" and path.startswith(TOPIC)])
def test_reader_that_meets_damage_makes_it_known(path: str, kind: str) -> None:
    """It comes while the broker runs, before the check in the background has seen it."""
    broker = VirtualBroker(disk=stopped("clean stop"))
    KINDS[kind](broker.disk, path)
    seen = read_committed(broker)
    judge(broker, seen, path)
    if seen.error is not ErrorCode.NONE:
        assert path in broker.lines[-1]
        read_committed(broker)
        broker.time.advance(5_000)
        assert broker.broker.metrics.file_problems == len(broker.lines) == 1


def told(examination: Examination) -> str:
    lines = [*examination.problems, *examination.unknown_directories]
    for finding in examination.findings:
        lines += [*finding.notes, finding.problem or ""]
    return "\n".join(lines)


@pytest.mark.sampled(13)
@EACH_DAMAGE
def test_verify_finds_what_a_start_finds_and_repair_mends_what_it_can(how: str, path: str, kind: str) -> None:
    disk = stopped(how)
    data = bytes(disk.files[path].data)
    KINDS[kind](disk, path)
    if kind == "EIO" and not data:
        return  # nothing to read
    before = {name: bytes(inode.data) for name, inode in disk.files.items()}
    try:
        examination = examine(disk)
    except (NoDataDirectory, OSError) as error:
        assert path.partition("/")[0] in str(error)
        assert kind in ("EACCES", "is a directory", "missing", "EIO", "empty", "truncated", "garbage")
        return
    assert {name: bytes(inode.data) for name, inode in disk.files.items()} == before
    directory = path.rpartition("/")[0]
    assert (
        path in told(examination)
        or f"{directory} is offline" in told(examination)
        or (is_silently_harmless(path, kind, data))
    )
    try:
        repair(disk, examination.damaged)
    except OSError as error:  # it stands in the way of a file that is written then
        assert path in str(error) and kind == "is a directory" and path in NOTHING_DEPENDS_ON
        return
    again = examine(disk)
    unrepairable = [finding for finding in examination.damaged if finding.survey is None]
    assert [finding.name for finding in again.damaged] == [finding.name for finding in unrepairable]
    assert again.problems == []
    assert not unrepairable or kind in ("EACCES", "is a directory")
    if unrepairable:
        return
    lost = {
        offset
        for finding in examination.damaged
        if finding.topic == TOPIC and finding.survey is not None
        for part in finding.survey.lost
        for offset in range(part.first_offset, part.next_offset)
    }
    broker, seen = settled(disk.kill())
    if broker.broker.topics.get(TOPIC) is None:  # what made it known is lost, as announced
        assert [finding.topic for finding in examination.damaged] == ["__cluster_metadata"]
        assert f"'{TOPIC}-0'" in broker.lines[-1]
        return
    assert (seen.error, seen.is_right) == (ErrorCode.NONE, True)
    assert set(seen.missing) == lost & set(ACKNOWLEDGED)


@pytest.mark.parametrize("how", STOPS)
def test_directory_that_is_gone_is_an_offline_partition_for_verify_and_start_and_repair_gives_its_offsets_up(
    how: str,
) -> None:
    disk = stopped(how)
    disk.delete_tree(f"{TOPIC}-0")
    _, seen = settled(disk.kill())
    assert (seen.error, seen.offsets) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    (finding,) = examine(disk).damaged
    assert finding.name == f"{TOPIC}-0" and finding.problem is not None and "no segment file is left" in finding.problem
    assert finding.survey is not None and finding.survey.lost_count == END_OFFSET
    repair(disk, [finding])
    assert not examine(disk).damaged
    broker, seen = settled(disk.kill())
    assert (seen.error, seen.offsets, broker.lines) == (ErrorCode.NONE, [], [])
    assert list_offset(broker) == (ErrorCode.NONE, END_OFFSET), "no offset is given away again"


@pytest.mark.parametrize("kind", ["missing", "empty", "garbage"])
def test_journal_that_is_lost_lets_no_later_start_take_damage_for_a_torn_write(kind: str) -> None:
    """The knowledge of the journal about a partition cannot be restored while that is offline."""
    disk = stopped("kill -9")
    KINDS[kind](disk, "flushed-offsets")
    for path in (MIDDLE, f"{TOPIC}-0/segment-manifest"):
        KINDS["garbage"](disk, path)
    for _ in range(3):
        broker, seen = settled(disk)
        assert seen.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.lines[0].startswith("flushed-offsets ")
        disk = broker.disk.kill()
    examination = examine(disk)
    assert examination.problems
    repair(disk, examination.damaged)
    broker, seen = settled(disk.kill())
    assert (seen.error, broker.lines) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("left_bytes", [0, 20, 60, 150])
@pytest.mark.parametrize("how", STOPS)
def test_full_disk_at_a_start_costs_partitions_and_not_the_start(how: str, left_bytes: int) -> None:
    """A partition that cannot be rebuilt for lack of room is offline with a line, and there again once there is
    room.
    """
    disk = stopped(how)
    for path in [path for path in disk.files if path.startswith(f"{TOPIC}-0/") and not path.endswith(".log")]:
        disk.delete(path)
    disk.capacity_bytes = disk.used_bytes + left_bytes
    broker, seen = settled(disk)
    assert seen.error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    judge(broker, seen, MIDDLE)
    if seen.error is not ErrorCode.NONE:
        assert any("No space left" in line and "free disk space" in line for line in broker.lines)
    disk = broker.disk.kill()
    disk.capacity_bytes = None
    _, seen = settled(disk)
    assert (seen.missing, seen.is_right, seen.error) == ([], True, ErrorCode.NONE)


def test_first_start_on_a_full_disk_is_refused_with_what_to_do() -> None:
    disk = MemoryDisk()
    disk.capacity_bytes = 100
    with pytest.raises(StartError, match=r"No space left.*"):
        VirtualBroker(disk=disk)
    disk.capacity_bytes = None
    VirtualBroker(disk=disk)


def test_offline_partitions_and_lines_about_files_are_counted() -> None:
    disk = stopped("clean stop")
    KINDS["EIO"](disk, MIDDLE)
    broker, _ = settled(disk)
    assert broker.broker.metrics.file_problems == len(broker.lines) == 1
