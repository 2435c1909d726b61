"""The logs of a data directory that no broker serves, opened as a start would open them.

Owns: opening, recovery and the clean close without an event loop. Does not own: the lock on the directory, the verdict
on damage (`oncelog.tools.log.check`). Over an `OverlayDisk` nothing changes on the real disk.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from uuid import UUID

from oncelog.broker.assembly.storage import METADATA_LOG_CONFIG
from oncelog.broker.cluster.metadata_log import ClusterState, MetadataLog, Topic
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.config.settings import load_config
from oncelog.broker.config.topic_config import log_config_for
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.storage.local.checkpoints import LEADER_EPOCHS, CleanerCheckpoint
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, directory_of, read_topic_id
from oncelog.broker.storage.local.recovered_log import RecoveryReport
from oncelog.broker.storage.local.segment_manifest import NAME as MANIFEST
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.turns.ports import Disk
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID


def is_of_a_log(name: str) -> bool:
    return name[:20].isdecimal() or name in (MANIFEST, LEADER_EPOCHS, PARTITION_METADATA)


class StoppedDirectory:
    """The logs of a data directory, and what the metadata log says about them."""

    def __init__(self, disk: Disk) -> None:
        self.reports: list[RecoveryReport] = []
        self.metadata_lines: tuple[str, ...] = ()
        """The lines that a start would report about the metadata snapshots."""
        self._disk = disk
        self._clock = SystemClock()
        loop = NoLoop()
        self.store = LocalLogStore(disk, self._clock, loop, raise_it, on_report=self.reports.append)
        self.logs = LogManager(self.store, Rounds(loop, self.store), NoListener(), self._clock)
        self.cleaned = CleanerCheckpoint(disk)
        self._config, _ = load_config()

    def is_its_own(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether the files in a partition's place are this topic's, and all of them are accessible."""
        directory = directory_of(topic, partition)
        try:
            for name in filter(is_of_a_log, self._disk.list_dir(directory)):
                self._disk.read_range(f"{directory}/{name}", 0, 1)
            return self.store.directory.claim(topic, partition, topic_id, []) is None
        except OSError:
            return False

    def settle_journal(self, damaged_topics: Collection[str]) -> None:
        """Settle the journal before segments are repaired. A damaged metadata log names no partitions: those with
        directories have ids."""
        directories = {}
        for topic, partition in self.store.topics.partitions():
            with suppress(OSError):
                topic_id = read_topic_id(self._disk, directory_of(topic, partition))
                if topic_id is not None:
                    directories[topic_id, partition] = directory_of(topic, partition)
        if METADATA_TOPIC not in damaged_topics:
            for topic, partition, topic_id, _ in self.partitions():
                directories.setdefault((topic_id, partition), directory_of(topic, partition))
        self.store.settle_journal(directories)

    def metadata_log(self) -> PartitionLog:
        return at_once(self.logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG))

    def config_of(self, topic: Topic) -> LogConfig:
        return log_config_for(topic.config, self._config)

    def metadata(self) -> ClusterState:
        """Return what the metadata log says. Raises KafkaError if it cannot be replayed, OSError."""
        files = SnapshotFiles(self._disk, directory_of(METADATA_TOPIC, 0))
        metadata = MetadataLog(self.metadata_log(), self._clock, files)
        self.metadata_lines = tuple(at_once(metadata.load()))
        return metadata.state

    def partitions(self) -> Iterator[tuple[str, int, UUID, LogConfig]]:
        """Yield every partition that the metadata log knows and that has or had files, the metadata log itself
        first."""
        yield METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG
        yield from self.partitions_of(self.metadata())

    def partitions_of(self, state: ClusterState) -> Iterator[tuple[str, int, UUID, LogConfig]]:
        found = [
            (directory_of(topic.name, index), index, topic)
            for topic in state.topics.values()
            for index in range(topic.partition_count)
            if self.store.directory.was_found(topic.name, index, topic.topic_id)
        ]
        for _, index, topic in sorted(found, key=lambda place: place[0]):
            yield topic.name, index, topic.topic_id, self.config_of(topic)

    def recover(self, on_recovered: Callable[[], None] = lambda: None) -> ClusterState:
        """Do what a start does to the files, for every partition: put back what only the journal has, remove torn
        writes and what is left of removed topics. `on_recovered` is called after each. Raises KafkaError, OSError."""
        state = self.metadata()
        self.store.topics.finish_removals(state.removed, state.topics_by_id)
        for topic, partition, topic_id, config in self.partitions_of(state):
            at_once(self.logs.open(topic, partition, topic_id, config))
            on_recovered()
        state.removed.clear()
        self.complete()
        return state

    def complete(self) -> None:
        """Every log was opened."""
        self.logs.begin_serving()

    def close(self) -> None:
        """Stop cleanly, as the broker does. Raises OSError."""
        problem = self.logs.close()
        if problem is not None:
            raise problem


class NoLoop:
    """A scheduler for logs to which nothing is appended, so that nothing is scheduled."""

    def call_soon(self, function: Callable[[], None]) -> None:
        return

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> "NoLoop":
        return self

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        return

    def cancel(self) -> None:
        return


class NoListener:
    def on_high_watermark(self, log: PartitionLog) -> None:
        return

    def on_log_start_offset(self, log: PartitionLog) -> None:
        return


def raise_it(error: OSError) -> None:
    raise error
