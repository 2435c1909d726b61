"""The copy-on-write disk: reads are what a real disk would return after the same changes, and nothing below changes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.turns.ports import Disk
from oncelog.testing.memory_disk import MemoryDisk

BELOW = b"0123456789"


def made() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("d")
    disk.open("d/file").append([BELOW])
    return disk


def contents(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: bytes(inode.data) for name, inode in disk.files.items()}


CHANGES: dict[str, Callable[[Disk], object]] = {
    "append": lambda disk: disk.open("d/file").append([b"abc"]),
    "truncate": lambda disk: disk.open("d/file").truncate(4),
    "overwrite": lambda disk: disk.open("d/file").write_durably(1, b"xy"),
    "replace": lambda disk: disk.write_atomically("d/file", b"new"),
    "delete": lambda disk: disk.delete("d/file"),
    "rename": lambda disk: disk.rename("d/file", "d/other") if disk.exists("d/file") else None,
}


def _seen(disk: Disk, start: int, end: int) -> dict[str, object]:
    seen: dict[str, object] = {"names": disk.list_dir("d")}
    for name in ("d/file", "d/other"):
        seen[name] = None
        if disk.exists(name):
            file = disk.open(name)
            views = {bytes(file.read_view(start, end)), bytes(file.cached_view(start, end) or b"")}
            views.add(disk.read_range(name, start, end))
            seen[name] = (file.size_bytes, disk.read_bytes(name), views)
    return seen


@given(
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=5),
    start=st.integers(0, 14),
    length=st.integers(0, 14),
)
def test_it_reads_like_the_disk_to_which_the_same_was_done(changes: list[str], start: int, length: int) -> None:
    below, plain = made(), made()
    overlay = OverlayDisk(below)
    before = contents(below)
    for change in changes:
        if change in ("append", "truncate", "overwrite") and not plain.exists("d/file"):
            continue
        if change == "truncate" and plain.open("d/file").size_bytes < 4:
            continue
        if change == "overwrite" and plain.open("d/file").size_bytes < 3:
            continue
        CHANGES[change](overlay)
        CHANGES[change](plain)
        assert _seen(overlay, start, start + length) == _seen(plain, start, start + length)
    assert contents(below) == before


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_file_that_is_missing_is_reported_as_on_a_disk(is_deleted: bool) -> None:
    overlay = OverlayDisk(made())
    if is_deleted:
        overlay.delete("d/file")
    name = "d/file" if is_deleted else "d/none"
    for read in (lambda: overlay.read_bytes(name), lambda: overlay.read_range(name, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read()
