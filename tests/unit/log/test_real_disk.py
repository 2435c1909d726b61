"""The real file system behind the Disk port, and a log on it."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.system import transfers
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk, SyncPool
from oncelog.broker.turns.slices import at_once
from tests.fakes.logs import TOPIC_ID, batch, delete_topic, files_of, local_logs, read_records, segments_of
from tests.fakes.scheduler import ManualClock, ManualScheduler


def test_file_appends_reads_and_cuts(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data")
    file = disk.open("a")
    assert file.append([b"one", memoryview(b"two")]) == 0
    assert file.append([b"three"]) == 6
    assert bytes(file.read_view(3, 100)) == b"twothree"
    assert bytes(file.read_view(50, 60)) == b""
    file.truncate(4)
    assert file.append([b"!"]) == 4
    file.sync()
    file.close()
    assert disk.read_bytes("a") == b"onet!"
    assert disk.open("a").size_bytes == 5


def test_open_descriptors_are_bounded_and_files_stay_usable(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files=4)
    before = len(os.listdir("/proc/self/fd"))
    files = [disk.open(f"file{number}") for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append([b"%d" % turn])
            assert len(os.listdir("/proc/self/fd")) <= before + 4, number
    for file in files:
        file.sync()
        assert bytes(file.read_view(0, 3)) == b"012"
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """This process may open so many more files, as when connections hold all the rest."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


def test_files_give_their_descriptors_back_when_there_are_no_others(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    files = [disk.open(f"file{number}") for number in range(20)]
    with descriptors_left(2):
        for turn in range(3):
            for file in files:
                file.append([b"%d" % turn])
        late = disk.open("late")
        late.append([b"late"])
        disk.write_atomically("checkpoint", b"1")
        assert [bytes(file.read_view(0, 9)) for file in (*files, late)] == [b"012"] * 20 + [b"late"]


def test_without_any_descriptor_an_open_fails_and_the_file_stays_usable(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("a")
    with descriptors_left(0), pytest.raises(OSError) as error:
        file.append([b"never"])
    assert error.value.errno == errno.EMFILE
    assert file.append([b"now"]) == 0


@pytest.mark.parametrize("count", [2, 1_025, 3_000])
def test_a_write_of_any_number_of_parts_is_whole_or_leaves_the_file_as_long_as_before(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk(tmp_path).open("a")
    file.append([b"good"])
    parts = [b"%06d" % number for number in range(count)]
    room = [10**9]
    real_pwritev = os.pwritev

    def reluctant(descriptor: int, parts: list[bytes], position: int) -> int:
        """Takes 4,099 bytes at most, and none once there is no room."""
        if not room[0]:
            raise OSError(28, "No space left on device")
        data = b"".join(parts)[: min(room[0], 4_099 if count > 2 else 5)]
        room[0] -= len(data)
        return real_pwritev(descriptor, [data], position) if len(parts) <= 1_024 else real_pwritev(descriptor, parts, 0)

    monkeypatch.setattr(os, "pwritev", reluctant)
    assert file.append(parts) == 4
    assert (tmp_path / "a").read_bytes() == b"good" + b"".join(parts)
    whole_bytes = file.size_bytes
    room[0] = 6 * count - 1
    with pytest.raises(OSError, match="No space"):
        file.append(parts)
    assert file.size_bytes == os.stat(tmp_path / "a").st_size == whole_bytes


def test_a_file_beyond_what_one_call_moves_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment may be a few bytes larger than that."""
    file = RealDisk(tmp_path).open("a")
    content = bytes(range(256)) * 10
    file.append([content])
    real_pread = os.pread
    monkeypatch.setattr(transfers, "MOST_BYTES", 1_000)
    monkeypatch.setattr(os, "pread", lambda descriptor, count, at: real_pread(descriptor, min(count, 1_000), at))
    for start, end in ((0, 2_560), (0, 1_000), (100, 1_100), (500, 99_999), (2_560, 2_600), (7, 8)):
        assert bytes(file.read_view(start, end)) == content[start:end]
    assert RealDisk(tmp_path).read_range("a", 0, 99_999) == content


def test_directory_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    first, second = RealDisk(tmp_path / "data"), RealDisk(tmp_path / "data")
    first.lock()
    with pytest.raises(DataDirectoryLocked, match="data"):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_only_the_owner_may_enter(tmp_path: Path) -> None:
    RealDisk(tmp_path / "data").open("file").append([b"x"])
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "file").stat().st_mode & 0o777 == 0o600


def test_directories_are_listed_renamed_and_deleted(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.make_dir("topic-0")
    disk.make_dir("topic-0")
    disk.open("topic-0/b")
    disk.open("topic-0/a")
    assert disk.list_dir("topic-0") == ["a", "b"]
    assert disk.list_dir("topic-0/a") == disk.list_dir("nowhere") == []
    disk.rename("topic-0", "gone")
    disk.sync_dir("")
    assert (disk.exists("topic-0"), disk.exists("gone/a")) == (False, True)
    disk.delete("gone/a")
    disk.delete("gone/a")
    with pytest.raises(IsADirectoryError):
        disk.delete("gone")
    disk.delete_tree("gone")
    disk.delete_tree("gone")
    assert disk.list_dir("") == []
    disk.write_atomically("checkpoint", b"1")
    disk.write_atomically("checkpoint", b"2")
    assert (disk.list_dir(""), disk.read_bytes("checkpoint")) == (["checkpoint"], b"2")


def test_tree_that_is_deleted_ends_at_links(tmp_path: Path) -> None:
    """A file that an operator has linked to from a data directory is not deleted with the link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "photo").write_bytes(b"photo")
    (tmp_path / "data" / "topic-0").mkdir(parents=True)
    disk = RealDisk(tmp_path / "data")
    for link in ("topic-0/link", "topic-1"):
        (tmp_path / "data" / link).symlink_to(tmp_path / "elsewhere")
    disk.delete_tree("topic-0")
    disk.delete_tree("topic-1")
    assert disk.list_dir("") == []
    assert (tmp_path / "elsewhere" / "photo").read_bytes() == b"photo"


def start(path: Path, policy: str = "fsync") -> tuple[LogManager, ManualScheduler]:
    scheduler = ManualScheduler()
    failures: list[OSError] = []
    manager = local_logs(RealDisk(path), ManualClock(), scheduler, failures.append, policy=policy, measures_syncs=True)
    return manager, scheduler


@pytest.mark.parametrize("is_clean", [True, False])
def test_log_on_a_real_disk_comes_back(tmp_path: Path, is_clean: bool) -> None:
    config = LogConfig(segment_bytes=500, index_interval_bytes=100)
    manager, scheduler = start(tmp_path)
    log = at_once(manager.open("topic", 0, TOPIC_ID, config))
    for sequence in range(30):
        log.append(batch(2, producer_id=9, base_sequence=sequence * 2), wall_ms=1_000_000)
        scheduler.run()
    wanted = [bytes(data) for _, data in log.batches()]
    manager.close() if is_clean else files_of(log).close()
    again, scheduler = start(tmp_path)
    assert again.store.was_clean is is_clean
    recovered = at_once(again.open("topic", 0, TOPIC_ID, config))
    assert [bytes(data) for _, data in recovered.batches()] == wanted
    assert recovered.append(batch(2, producer_id=9, base_sequence=50), wall_ms=1_000_000).duplicate
    assert len(read_records(recovered, 59, 10, FetchIsolation.TXN_COMMITTED).records) > 0
    delete_topic(again, scheduler, "topic")
    scheduler.run()
    again.close()
    assert not any(name.startswith("topic") for name in os.listdir(tmp_path))


def test_pool_returns_when_all_have_run_and_passes_no_error_by() -> None:
    pool = SyncPool(2)
    done: list[int] = []
    for count in (1, 10):
        done.clear()
        pool.run_all([lambda number=number: done.append(number) for number in range(count)])  # type: ignore[misc]
        assert sorted(done) == list(range(count))

    def fail() -> None:
        raise OSError("broken")

    for count in (1, 10):
        with pytest.raises(OSError, match="broken"):
            pool.run_all([fail] * count)
    pool.close()


def test_files_that_a_roll_completes_do_not_stay_open(tmp_path: Path) -> None:
    manager, scheduler = start(tmp_path)
    log = at_once(manager.open("topic", 0, TOPIC_ID, LogConfig(segment_bytes=200)))
    log.append(batch(2), wall_ms=1_000_000)
    scheduler.run()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        log.append(batch(2), wall_ms=1_000_000)
        scheduler.run()
    assert len(os.listdir("/proc/self/fd")) - before == len(segments_of(log)) - 1
    manager.close()


@pytest.mark.parametrize("policy", ["fsync", "os", "memory"])
def test_a_deleted_partition_keeps_no_file_open(policy: str, tmp_path: Path) -> None:
    """Neither those of its records nor those that no checkpoint had made durable yet."""
    manager, scheduler = start(tmp_path, policy)
    log = at_once(manager.open("topic", 0, TOPIC_ID, LogConfig(segment_bytes=200)))
    for _ in range(5):
        log.append(batch(2), wall_ms=1_000_000)
        scheduler.run()
    delete_topic(manager, scheduler, "topic")
    scheduler.run()
    opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)]
    assert not [path for path in opened if path.startswith(f"{tmp_path}/topic")]
    manager.close()


def _is_open(descriptor: str) -> bool:
    """False for the one by which the directory was listed."""
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def test_partition_of_the_longest_name_can_be_deleted_and_can_make_way(tmp_path: Path) -> None:
    """A suffix would make a name of 249 characters longer than a file system takes."""
    name = "t" * 249
    manager, scheduler = start(tmp_path)
    log = at_once(manager.open(name, 0, TOPIC_ID, LogConfig()))
    log.append(batch(), wall_ms=1_000_000)
    scheduler.run()
    delete_topic(manager, scheduler, name)
    scheduler.run()
    assert not [entry for entry in os.listdir(tmp_path) if entry.startswith("t")]
    (tmp_path / f"{name}-0").mkdir()
    manager.close()
    manager, _ = start(tmp_path)
    manager.store.topics.make_way(name, range(1))
    (stray,) = [entry for entry in os.listdir(tmp_path) if entry.startswith("t")]
    assert stray.endswith("-stray")
    manager.close()
