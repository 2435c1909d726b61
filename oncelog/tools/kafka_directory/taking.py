"""What `oncelog adopt` and `oncelog graduate` do alike: with files, with the directory that our recovery has read, and
in the tables that they show."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from oncelog.broker.cluster.metadata_log import ClusterState, Topic
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.amounts import size_text
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.log.stopped_directory import StoppedDirectory
from oncelog.tools.terminal import say_progress


def check_room(directory: Path, needed_bytes: int) -> None:
    """Raises NotPossible unless so much can be copied beside a directory."""
    parent = directory.absolute().parent
    free = shutil.disk_usage(parent).free
    if needed_bytes > free:
        raise NotPossible(
            f"{size_text(needed_bytes)} would be copied to {parent}, which has room for {size_text(free)}: make room"
        )


def summed(on_copied: Callable[[int, int], None], total_bytes: int) -> Callable[[int], None]:
    """Return a callback for bytes that were just copied, which calls `on_copied` with those so far, and the total."""
    copied_bytes = 0

    def on_more(size_bytes: int) -> None:
        nonlocal copied_bytes
        copied_bytes += size_bytes
        on_copied(copied_bytes, total_bytes)

    return on_more


def say_copied(done_bytes: int, total_bytes: int) -> None:
    """Replace the line of progress, on a terminal."""
    if sys.stderr.isatty():
        is_done = done_bytes >= total_bytes
        say_progress("" if is_done else f"copied {size_text(done_bytes)} of {size_text(total_bytes)}")


def recover(disk: Disk, advice: str, on_partition: Callable[[], None] = lambda: None) -> ClusterState:
    """Recover a directory and close it cleanly. Raises KafkaError if the metadata log cannot be replayed, and
    NotPossible, with the `advice`, if a partition is damaged."""
    directory = StoppedDirectory(disk)
    state = directory.recover(on_partition)
    offline = [log.offline_error for log in directory.logs.logs if log.offline_error is not None]
    directory.close()
    if offline:
        raise NotPossible(f"{offline[0]}: {len(offline)} damaged{advice}")
    return state


def rows_of_state(
    state: ClusterState,
    topics: Collection[Topic],
    partitions: tuple[str, int, str],
    count_of: Callable[[str], int],
    levels: Mapping[str, int],
) -> Iterator[tuple[str, int, str]]:
    """Yield the rows of what goes along in either direction: what, how many, and a sentence. `count_of` returns how
    many partitions an internal topic has; `levels` are those of the features."""
    shown = ", ".join(f"{name} {level}" for name, level in levels.items())
    yield "topics", len(topics), "go along, with their ids"
    yield partitions
    yield "settings of topics", sum(len(topic.config) for topic in topics), "go along"
    yield "other settings", sum(map(len, state.configs.values())), "go along: of brokers, groups, client metrics"
    yield "partitions of groups", count_of(CONSUMER_OFFSETS), "go along: committed offsets, members"
    yield "partitions of share groups", count_of(SHARE_GROUP_STATE), "go along: acknowledged, deliveries"
    yield "partitions of transactions", count_of(TRANSACTION_STATE), "go along: open ones, prepared ones"
    yield "next producer id", state.next_producer_id, "goes along"
    yield "features", len(levels), f"go along: {shown}"
