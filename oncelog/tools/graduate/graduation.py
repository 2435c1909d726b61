"""One graduation, from the locked directory to the report.

Owns: what is asked for, what was done. Does not own: the options and what is printed (`cli`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.broker.config.settings import BrokerConfig, Origin
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.data_directory import GRADUATED, KAFKAS_MARK, KAFKAS_MARK_TO_BE
from oncelog.broker.system.disk import RealDisk
from oncelog.tools.graduate.files import FoundFile, Role, find_files
from oncelog.tools.graduate.security import by_hand
from oncelog.tools.graduate.settings import (
    PROPERTIES,
    controller_beside,
    left_behind,
    server_properties,
)
from oncelog.tools.graduate.source import Source, check_in_place, lock, read
from oncelog.tools.graduate.steps import (
    NewFiles,
    Step,
    check_room_for,
    check_target,
    run,
    steps_elsewhere,
    steps_in_place,
    steps_to_complete,
)
from oncelog.tools.held_directory import check_files, kept_by_its_owner
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import encode_checkpoint, own_settings
from oncelog.tools.kafka_directory.properties import Node, meta_properties, new_directory_id
from oncelog.tools.kafka_directory.taking import summed


@dataclass(frozen=True, slots=True)
class Wish:
    """The arguments of a graduation."""

    data_dir: Path
    config: BrokerConfig
    given: Mapping[str, str]
    """The settings of the broker as they were given, by name."""
    kafka_dir: Path | None = None
    """The directory for Kafka; None to graduate in place."""
    controller: tuple[str, int] | None = None
    """Where Kafka's controller is to listen; beside the first listener if it is None."""
    copies: bool = False
    """True if closed segments may be copied, to another file system."""

    @property
    def target(self) -> Path:
        return (self.kafka_dir or self.data_dir).absolute()


@dataclass(frozen=True, slots=True)
class Report:
    """The parts that go along, and those that stay."""

    source: Source
    files: Sequence[FoundFile]
    settings_left: Sequence[str]
    """Settings of the broker that have no meaning in Kafka."""
    stored_settings_left: Sequence[str]
    """Settings of topics, brokers and groups in the metadata log that have no meaning in Kafka."""
    by_hand: Sequence[str]
    """The steps that a person has to do, as sentences."""

    def count(self, role: Role) -> tuple[int, int]:
        """Return the number of files of a role, and their bytes."""
        sizes = [file.size_bytes for file in self.files if file.role is role]
        return len(sizes), sum(sizes)


@dataclass(slots=True)
class Watcher:
    """Callbacks for the progress of a graduation."""

    on_plan: Callable[[Report], None] = field(default=lambda _: None)
    """Called before the first step; an exception ends the graduation there."""
    on_step: Callable[[str], None] = field(default=lambda _: None)
    """Called with each step that is done."""
    on_copied: Callable[[int, int], None] = field(default=lambda *_: None)
    """Called with the bytes that are copied so far, and those to copy."""


def graduate(wish: Wish, watcher: Watcher) -> Report | None:
    """Turn the directory into one of Kafka's; None if this only completed an earlier attempt in place, which was
    interrupted. Raises NotPossible; whatever ends it, the source is usable, or this can be repeated."""
    with _locked(wish) as disk, kept_by_its_owner(wish.data_dir):
        if disk.exists(KAFKAS_MARK_TO_BE):
            _complete(disk, wish, watcher)
            return None
        report, steps = _plan(disk, wish, watcher, is_dry=False)
        watcher.on_plan(report)
        run(steps, watcher.on_step)
        return report


def preview(wish: Wish) -> Report | None:
    """Return what `graduate` would do; changes nothing. Raises NotPossible."""
    with _locked(wish) as disk:
        if disk.exists(KAFKAS_MARK_TO_BE):
            return None
        return _plan(disk, wish, Watcher(), is_dry=True)[0]


@contextmanager
def _locked(wish: Wish) -> Iterator[RealDisk]:
    disk = lock(wish.data_dir)
    try:
        yield disk
    except OSError as error:
        raise NotPossible(f"{trouble(error)}; then repeat the command") from error
    finally:
        disk.close()


def _complete(disk: RealDisk, wish: Wish, watcher: Watcher) -> None:
    if wish.kafka_dir is not None:
        raise NotPossible(f"{wish.data_dir} is half-way to a directory of Apache Kafka: complete it with --in-place")
    run(steps_to_complete(disk), watcher.on_step)


def _plan(disk: RealDisk, wish: Wish, watcher: Watcher, *, is_dry: bool) -> tuple[Report, list[Step]]:
    """Return the report and the steps; everything that can be refused is refused here. Recovers the directory unless
    `is_dry`."""
    kafka_dir = wish.kafka_dir
    if disk.exists(GRADUATED):
        _check_not_done(Path(disk.read_bytes(GRADUATED).decode(errors="replace").strip()))
    check_files(wish.data_dir)
    if kafka_dir is None:
        check_in_place(disk, wish.data_dir)
    else:
        check_target(wish.data_dir, kafka_dir, copies=wish.copies)
    controller = controller_beside(wish.config, wish.controller)
    source = read(disk, changes_nothing=is_dry)
    directory_id = new_directory_id()
    node = Node(source.cluster_id, _node_id(source, wish.config), directory_id)
    new = NewFiles(
        encode_checkpoint(source.state, directory_id),
        server_properties(node, wish.config, wish.given, controller, wish.target),
        meta_properties(node),
    )
    files = tuple(find_files(wish.data_dir, source.directories))
    report = Report(
        source, files, left_behind(wish.config, wish.given), own_settings(source.state), by_hand(wish.config)
    )
    if kafka_dir is None:
        return report, steps_in_place(disk, new)
    on_copied = summed(watcher.on_copied, check_room_for(kafka_dir, files, copies=wish.copies))
    steps = steps_elsewhere(disk, wish.data_dir, kafka_dir, files, new, copies=wish.copies, on_copied=on_copied)
    return report, steps


def _check_not_done(kafka_dir: Path) -> None:
    if (kafka_dir / KAFKAS_MARK).exists():
        raise NotPossible(
            f"it was done before: Apache Kafka starts with {kafka_dir / PROPERTIES}; to do it again, and give up what "
            f"Kafka has taken since, delete {kafka_dir}"
        )


def _node_id(source: Source, config: BrokerConfig) -> int:
    if config.origin("node.id") is not Origin.DEFAULT and config.get_int("node.id") != source.node_id:
        raise NotPossible(
            f"the directory was last served as node {source.node_id}, and node.id is {config.get_str('node.id')}: "
            "give the settings that it was served with"
        )
    return source.node_id
