"""How a data directory becomes Kafka's: small steps, each of which may be the last one before a kill.

Owns: their order, and what is durable after each. Does not own: the contents of the small files (`kafka_directory`,
`settings`), the role of a file (`files`).

In place:
1. the new files, of which neither broker takes notice;
2. the mark `meta.properties.graduating`: `oncelog serve` refuses the directory, and a repetition begins with the next;
3. our own files are removed;
4. the mark is renamed to `meta.properties`, without which Kafka does not start.

Elsewhere, where a repetition begins again:
1. an empty directory beside the one to be;
2. links and copies in it;
3. the new files;
4. the mark `graduated` in the source: `oncelog serve` refuses it;
5. the directory gets its name.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.local.boot_mark import NAME as BOOT_MARK
from oncelog.broker.storage.local.data_directory import (
    ADOPTED,
    GRADUATED,
    KAFKAS_MARK,
    KAFKAS_MARK_TO_BE,
)
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.partition_directory import deleted_name, partition_of
from oncelog.broker.system.disk import RealDisk
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from oncelog.tools.file_copies import NO_LINKS, copy, sync_directory, write
from oncelog.tools.graduate.files import FoundFile, Role, is_ours_in_partition
from oncelog.tools.graduate.settings import PROPERTIES
from oncelog.tools.held_directory import HeldDirectory
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import BOOTSTRAP
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY
from oncelog.tools.kafka_directory.taking import check_room
from oncelog.tools.new_directory import NotNew, check_new

_UNFINISHED_SUFFIX = ".graduating"

Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class NewFiles:
    """The contents of the files that are written."""

    checkpoint: bytes
    server_properties: str
    meta_properties: str


def run(steps: Sequence[Step], on_done: Callable[[str], None]) -> None:
    for name, step in steps:
        step()
        on_done(name)


# -- in place


def steps_in_place(disk: RealDisk, new: NewFiles) -> list[Step]:
    def write_new() -> None:
        disk.write_atomically(BOOTSTRAP, new.checkpoint)
        disk.write_atomically(PROPERTIES, new.server_properties.encode())

    def write_mark() -> None:
        disk.write_atomically(KAFKAS_MARK_TO_BE, new.meta_properties.encode())

    return [("new files", write_new), ("mark", write_mark), *steps_to_complete(disk)]


def steps_to_complete(disk: RealDisk) -> list[Step]:
    """Return the steps that are left once the mark is there."""

    def complete() -> None:
        disk.rename(KAFKAS_MARK_TO_BE, KAFKAS_MARK)
        disk.delete(GRADUATED)
        disk.sync_dir("")

    return [("own files", partial(_remove_own_files, disk)), ("meta.properties", complete)]


def _remove_own_files(disk: RealDisk) -> None:
    # Under a name that Kafka skips: a kill must not leave half a metadata log under its own.
    going = deleted_name(METADATA_TOPIC, 0, METADATA_TOPIC_ID)
    if disk.exists(METADATA_DIRECTORY):
        disk.delete_tree(going)
        disk.rename(METADATA_DIRECTORY, going)
        disk.sync_dir("")
    disk.delete_tree(going)
    for name in (*JOURNALS, FLUSHED_OFFSETS, ADOPTED, LOGIN_SECRET, BOOT_MARK):
        disk.delete(name)
    for directory in filter(partition_of, disk.list_dir("")):
        for name in filter(is_ours_in_partition, disk.list_dir(directory)):
            disk.delete(f"{directory}/{name}")
    disk.sync_dir("")


# -- elsewhere


def check_target(data_dir: Path, kafka_dir: Path, *, copies: bool) -> None:
    """Raises NotPossible unless the directory can be made."""
    try:
        check_new(kafka_dir)
    except NotNew as error:
        raise NotPossible(str(error)) from error
    parent = kafka_dir.absolute().parent
    if not copies and (kafka_dir if kafka_dir.exists() else parent).stat().st_dev != data_dir.stat().st_dev:
        raise _no_links(data_dir, kafka_dir)


def check_room_for(kafka_dir: Path, files: Sequence[FoundFile], *, copies: bool) -> int:
    """Return how many bytes will be copied. Raises NotPossible if they are too many."""
    roles = (Role.CLOSED, Role.GROWING) if copies else (Role.GROWING,)
    needed_bytes = sum(file.size_bytes for file in files if file.role in roles)
    check_room(kafka_dir, needed_bytes)
    return needed_bytes


def _no_links(data_dir: Path, kafka_dir: Path) -> NotPossible:
    return NotPossible(
        f"{kafka_dir} cannot have hard links to the files in {data_dir}, as on another file system: choose a directory "
        "on the same one, or --in-place, or --copy, which reads and writes every byte"
    )


def _write_durably(directory: Path, new: NewFiles) -> None:
    """Write the files, and make all that is in the directory durable."""
    contents: Mapping[str, bytes] = {
        BOOTSTRAP: new.checkpoint,
        PROPERTIES: new.server_properties.encode(),
        KAFKAS_MARK: new.meta_properties.encode(),
    }
    for name, content in contents.items():
        write(directory / name, content)
    for each, _, _ in os.walk(directory):
        sync_directory(Path(each))


def steps_elsewhere(
    disk: RealDisk,
    data_dir: Path,
    kafka_dir: Path,
    files: Sequence[FoundFile],
    new: NewFiles,
    *,
    copies: bool,
    on_copied: Callable[[int], None],
) -> list[Step]:
    """Return the steps into another directory; `on_copied` is called with the number of bytes that were just copied."""
    unfinished = unfinished_dir(kafka_dir)

    def begin() -> None:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)

    def take_files() -> None:
        try:
            _take(data_dir, unfinished, files, copies=copies, on_copied=on_copied)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if error.errno not in NO_LINKS:
                raise
            raise _no_links(data_dir, kafka_dir) from error

    def write_new() -> None:
        _write_durably(unfinished, new)

    def write_mark() -> None:
        disk.write_atomically(GRADUATED, f"{kafka_dir.absolute()}\n".encode())

    def name_it() -> None:
        unfinished.rename(kafka_dir)
        sync_directory(kafka_dir.absolute().parent)

    return [
        ("directory", begin),
        ("files", take_files),
        ("new files", write_new),
        ("mark", write_mark),
        ("name", name_it),
    ]


def unfinished_dir(kafka_dir: Path) -> Path:
    """Return the directory's name while it is made."""
    return kafka_dir.absolute().with_name(kafka_dir.name + _UNFINISHED_SUFFIX)


def _take(
    data_dir: Path,
    unfinished: Path,
    files: Sequence[FoundFile],
    *,
    copies: bool,
    on_copied: Callable[[int], None],
) -> None:
    taken = [file for file in files if file.role in (Role.CLOSED, Role.GROWING)]
    with HeldDirectory(data_dir) as source, HeldDirectory(unfinished) as target:
        for directory in sorted({file.path.rpartition("/")[0] for file in taken} - {""}):
            target.make(directory).close()
        for file in taken:
            if file.role is Role.GROWING or copies:
                copy(source, target, file.path, on_copied)
                continue
            with target.directory_of(file.path) as (partition, _):
                source.link(file.path, partition)
