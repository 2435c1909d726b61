"""Follows the metadata log of the leader, from the tables.

Owns: the state as far as it was followed. Does not own: the broker that answers from it (`broker.assembly.standby`),
how often the tables are read (`standby`).
Invariant: the state is that of all committed records up to an offset, under one leader. The next leader's database may
have lost some of them, so a new epoch of the lease needs a new follower.
"""

from collections.abc import Callable, Mapping

from oncelog.broker.cluster.metadata_log import ClusterState
from oncelog.broker.cluster.metadata_records import decode_metadata_record
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles, decode_snapshot
from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.memory.store import MemoryBlobs
from oncelog.broker.storage.sections import LogKey, decode_checked
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import Followed, FollowMetadata, ReadBlobs
from oncelog.broker.turns.ports import Buffer
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID

METADATA_KEY: LogKey = (METADATA_TOPIC_ID, 0)
_FOLDER = f"{METADATA_TOPIC}-0"


class FellBehind(Exception):
    """The next records are not in the tables any more: a newer snapshot has them."""


class MetadataFollower:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.on_record: Callable[[object], None] = lambda _: None
        """Called with each record that was replayed."""
        self.state = ClusterState()
        self.number = 0
        """The round up to which it was followed."""
        self.next_offset = 0
        self.login_secret: bytes | None = None

    def load(self) -> Sliced[None]:
        """Load the newest snapshot and the records behind it. Raises FellBehind, OSError, KafkaError, ProtocolError."""
        reading = self._statements.ask(ReadBlobs(f"{_FOLDER}/"))
        asking = self._statements.ask(ReadBlobs(LOGIN_SECRET))
        yield reading
        yield asking
        self._load_snapshot(reading.result())
        self.login_secret = asking.result().get(LOGIN_SECRET)
        yield from self.follow()
        if self.state.cluster_id is None:
            raise FellBehind  # the very first leader has not written it yet

    def _load_snapshot(self, blobs: Mapping[str, bytes]) -> None:
        found = MemoryBlobs()
        for path, data in blobs.items():
            found.write_atomically(path, data)
        files = SnapshotFiles(found, _FOLDER)
        for snapshot in files.found():
            state = ClusterState()
            try:
                for record in decode_snapshot(files.read(snapshot)):
                    state.replay(record, snapshot.end_offset - 1)
            except (KafkaError, ProtocolError, ValueError):
                continue  # the one before is enough
            self.state, self.next_offset = state, snapshot.end_offset
            return

    def follow(self) -> Sliced[None]:
        """Replay the records that were committed since the last look. Raises as `load`."""
        looking = self._statements.ask(FollowMetadata(self.number, self.next_offset))
        yield looking
        followed: Followed = looking.result()
        if followed.start_offset > self.next_offset:
            raise FellBehind
        for chunk in followed.chunks:
            self._replay(chunk)
            yield 1
        for body in followed.rounds:
            for key, span in decode_checked(memoryview(body)):
                if key == METADATA_KEY and span is not None:
                    self._replay(span.data)
            yield 1
        self.number = followed.number

    def _replay(self, batches: Buffer) -> None:
        for header, batch in iter_batches(memoryview(batches)):
            if header.next_offset <= self.next_offset:
                continue
            if header.base_offset != self.next_offset:
                raise FellBehind
            for record in decode_records(batch):
                if record.value is not None:
                    decoded = decode_metadata_record(memoryview(record.value), record.offset)
                    self.state.replay(decoded, record.offset)
                    self.on_record(decoded)
            self.next_offset = header.next_offset
