"""The image of a data directory that `oncelog backup` copies."""

import errno
import json
import os
from pathlib import Path

from oncelog.broker.storage.local.data_directory import IMAGE_ERROR, IMAGE_LIST, IMAGE_WANTED
from oncelog.broker.system.disk import RealDisk
from tests.fakes import backup
from tests.fakes.logs import Logs, batch

LOG = f"topic-0/{0:020d}.log"


def taken(logs: Logs) -> dict[str, int]:
    """The sizes of the files of an image that is taken now."""
    return backup.taken(logs.disk, logs.store, logs.manager.logs) or {}


def test_what_only_the_journal_has_of_an_offline_log_goes_along() -> None:
    """Its first batch is damaged, its second one never reached the segment: with the damage mended in the copy, both
    are there."""
    logs = Logs()
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    first_bytes = len(logs.disk.files[LOG].data)
    logs.append(log, batch())
    logs.flush()
    disk = logs.disk.kill()
    disk.files[LOG].data[first_bytes - 1] ^= 1
    del disk.files[LOG].data[first_bytes:]
    damaged = Logs(disk)
    assert damaged.open().offline_error is not None
    damaged.serve()
    copy = backup.copied(damaged.disk, taken(damaged))
    assert Logs(copy.kill()).open().offline_error is not None
    copy.files[LOG].data[first_bytes - 1] ^= 1
    mended = Logs(copy).open()
    assert (mended.offline_error, mended.log_end_offset) == (None, 2)


def test_a_copy_that_lost_its_end_is_no_whole_log() -> None:
    """All that was appended is durable in an image: fewer bytes are damage, and no torn write."""
    logs = Logs()
    logs.append(logs.open(), batch())
    copy = backup.copied(logs.disk, taken(logs))
    del copy.files[LOG].data[-1:]
    assert Logs(copy).open().offline_error is not None


def test_what_a_deletion_has_left_of_the_beginning_stays_behind() -> None:
    """Another thread deletes segments below the log start one by one: there may be a gap after what is left."""
    logs = Logs()
    log = logs.open(segment_bytes=100)
    for _ in range(3):
        logs.append(log, batch())
    logs.flush()
    logs.delete_records(log, 2)
    logs.disk.open(LOG).append([b"left"])
    sizes = taken(logs)
    assert [path for path in sizes if path.endswith(".log")] == [f"topic-0/{2:020d}.log"]


def test_a_file_system_without_links_is_named() -> None:
    """The broker keeps running, and says why there is no image."""
    logs = Logs()
    logs.append(logs.open(), batch())

    def refuse(path: str, new_path: str) -> int:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)

    logs.disk.lend = refuse  # type: ignore[method-assign]
    logs.disk.open(IMAGE_WANTED).close()
    logs.store.step(logs.manager.logs)
    assert json.loads(logs.disk.read_bytes(IMAGE_LIST)) == {IMAGE_ERROR: "Operation not permitted"}
    assert not logs.failures


def test_a_file_that_was_lent_is_written_to_in_place(tmp_path: Path) -> None:
    """Otherwise the first append after a backup would copy a gigabyte; one that is shared with Kafka's directory gets
    bytes of its own all the same."""
    disk = RealDisk(tmp_path)
    for name in ("lent", "shared"):
        (tmp_path / name).write_bytes(b"one")
    os.link(tmp_path / "shared", tmp_path / "kafkas")
    assert [disk.lend(name, f"image-{name}") for name in ("lent", "shared")] == [3, 3]
    for name in ("lent", "shared"):
        disk.open(name).append([b"two"])
    disk.close()
    assert [(tmp_path / name).read_bytes() for name in ("image-lent", "kafkas")] == [b"onetwo", b"one"]
