"""Recognises mistakes in what clients ask for.

Owns: what requests said so far, as far as a mistake needs it, and the findings. Does not own: messages (`requests`),
texts of what to change (`kinds`). Invariants
- Each `on_x` is one fact about a request: plain values, no I/O, and time from the clock.
- All tables are bounded: the least recently used entry makes way, and is counted (`Report.forgotten`). Names are
  given `shortened`.
- The order of two facts does not matter where either may come first: a topic remembers the clients that use it in a way
  that is a mistake only once a transaction writes to it.

No request says which program it comes from. A consumer and a producer are taken for parts of one if they have the same
host and client id, or default ids of one library (`Client.program`); or if the same group is in their requests.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from oncelog.broker.turns.ports import Clock, MonotonicMs
from oncelog.broker.witness.findings import (
    Client,
    Connection,
    Finding,
    Key,
    Report,
    Sender,
    Sighting,
    Subject,
    shortened,
)
from oncelog.broker.witness.holdings import Held, Holdings
from oncelog.broker.witness.kinds import (
    ACKS_BELOW_ALL,
    COMMIT_AFTER_FAILED_PRODUCE,
    GROUP_METADATA_MISSING,
    LATE_ACKNOWLEDGEMENT,
    OFFSETS_OUTSIDE_TRANSACTION,
    READS_UNCOMMITTED,
    SHARE_GROUP_BESIDE_TRANSACTIONS,
    TORN_TRANSACTIONS,
    TRANSACTION_TIMEOUT,
    TRANSACTIONAL_ID_SHARED,
    Kind,
)
from oncelog.broker.witness.recent import Recent

LIMIT: Final = 1_000
"""The most entries of each table. Measured: full of ordinary names they take 4 MiB, full of names of 250 letters 64
MiB."""
OF_EACH: Final = 20
"""The most entries of a table inside an entry."""
TOPICS_OF_PROGRAM: Final = 100
"""The most output topics remembered of a program: with fewer, its own output would be taken for its input."""
TAKEOVERS: Final = 2
TAKEOVER_WINDOW_MS: Final = 600_000
"""A rolling restart takes an id over once while the older instance lives; instances that fence each other do it again
as soon as they have restarted."""


class Batch(NamedTuple):
    """A batch of a transactional Produce, and its outcome."""

    topic: str
    partition: int
    crc: int
    """The checksum; a retry has the same."""
    base_sequence: int
    record_count: int
    error: str
    """The error of the batch; empty if it was written."""

    def settles(self, failed: "Batch") -> bool:
        """Whether this batch retries a failed batch, or is the first part of one: some clients split what is too
        large."""
        if (self.topic, self.partition) != (failed.topic, failed.partition):
            return False
        is_part = self.base_sequence == failed.base_sequence and self.record_count < failed.record_count
        return self.crc == failed.crc or (failed.error == "MESSAGE_TOO_LARGE" and is_part)


class SharedBy(NamedTuple):
    """A partition that a member of a share group reads."""

    group: str
    member_id: str
    topic: str
    partition: int


class Acknowledged(NamedTuple):
    """A range of records that a member of a share group has acknowledged."""

    first_offset: int
    last_offset: int
    is_renewal: bool


@dataclass(slots=True)
class _Program:
    writer: Connection | None = None
    """The connection of its last transactional write; None before the first."""
    topics: Recent[str, None] = field(default_factory=lambda: Recent(TOPICS_OF_PROGRAM))
    """The topics that it wrote to in transactions."""
    weak_writes: Recent[str, Sighting] = field(default_factory=lambda: Recent(OF_EACH))
    """Writes with acks below all, by topic, before its first transactional write."""


@dataclass(slots=True)
class _Topic:
    has_transactions: bool = False
    waiting: Recent[Key, Sighting] = field(default_factory=lambda: Recent(OF_EACH))
    """Sightings that count as mistakes only once there is a transaction."""


@dataclass(slots=True)
class _TransactionalId:
    timeout_ms: int = 0
    holder: Connection | None = None
    holder_client_id: str = ""
    takeovers: deque[MonotonicMs] = field(default_factory=lambda: deque(maxlen=TAKEOVERS))
    """The times at which the id was taken over while its holder was still connected."""


@dataclass(slots=True)
class _Group:
    session_timeout_ms: int | None = None
    """The session timeout of the member seen last; None without one."""
    transactional_id: str | None = None
    """The transactional id of a transaction that committed its offsets."""


class Witness:
    def __init__(self, clock: Clock, limit: int = LIMIT, on_found: Callable[[Finding], None] = lambda _: None) -> None:
        """`on_found` is called with each new finding, not with each further time."""
        self._clock = clock
        self._on_found = on_found
        self._software: Recent[Connection, tuple[str, str]] = Recent(limit)
        self._programs: Recent[tuple[str, str], _Program] = Recent(limit)
        self._topics: Recent[str, _Topic] = Recent(limit)
        self._transactional_ids: Recent[str, _TransactionalId] = Recent(limit)
        self._groups: Recent[str, _Group] = Recent(limit)
        self._failed: Recent[tuple[int, int], list[Batch]] = Recent(limit)
        """The batches of open transactions that have a failed one, by producer id and epoch."""
        self._holdings: Recent[SharedBy, Holdings] = Recent(limit)
        self._found: Recent[Key, Sighting] = Recent(limit)

    def report(self) -> Report:
        findings = sorted(
            (each.finding for each in self._found),
            key=lambda each: (each.severity != "wrong", each.client_id, each.software_name, each.first_ms),
        )
        tables: dict[str, Recent[Any, Any]] = {
            "connections": self._software,
            "programs": self._programs,
            "topics": self._topics,
            "transactional_ids": self._transactional_ids,
            "groups": self._groups,
            "producers": self._failed,
            "share_partitions": self._holdings,
            "findings": self._found,
        }
        return Report(tuple(findings), {name: table.forgotten_count for name, table in tables.items()})

    def sender(self, connection: Connection, client_id: str | None) -> Sender:
        """Return the sender of a request on this connection."""
        name, version = self._software.get(connection) or ("", "")
        return Sender(Client(shortened(client_id or ""), connection.host, name, version), connection)

    # --- facts --------------------------------------------------------------------------------------------------------

    def on_software(self, connection: Connection, name: str, version: str) -> None:
        """Note the client's software, which ApiVersions named."""
        self._software.put(connection, (shortened(name), shortened(version)))

    def on_uncommitted_fetch(self, sender: Sender, topics: Iterable[str]) -> None:
        """Note that a consumer reads these topics at read_uncommitted."""
        for topic in topics:
            seen = "reads at read_uncommitted what transactions write: records of aborted ones too"
            self._beside_transactions(READS_UNCOMMITTED, sender, topic, seen)

    def on_weak_produce(self, sender: Sender, topics: Iterable[str], acks: int) -> None:
        """Note that records were written outside of a transaction, with acks 0 or 1."""
        known = self._programs.use(sender.client.program, _Program)
        is_named = sender.client.library is None  # by a default id, programs of a host would be mixed up
        seen = f"writes with acks={acks} beside transactions"
        for topic in topics:
            if is_named and known.writer is not None:
                self._note(ACKS_BELOW_ALL, sender, topic, Subject(topic=topic), seen)
                continue
            sighting = self._beside_transactions(ACKS_BELOW_ALL, sender, topic, seen)
            if is_named:
                known.weak_writes.put(topic, sighting)

    def on_transactional_produce(self, sender: Sender, topics: Iterable[str]) -> None:
        known = self._programs.use(sender.client.program, _Program)
        known.writer = sender.connection
        self._publish(known.weak_writes.take_all())
        for topic in topics:
            known.topics.put(topic, None)
            state = self._topics.use(topic, _Topic)
            state.has_transactions = True
            self._publish(state.waiting.take_all())

    @property
    def has_failed_batches(self) -> bool:
        """Whether any producer has failed batches, of which batches written now may be retries."""
        return len(self._failed) > 0

    def on_batches(self, producer: tuple[int, int], batches: Sequence[Batch]) -> None:
        """Note the outcomes of the batches of a transactional Produce: call it if one failed or `has_failed_batches`.
        `producer` is its id and epoch."""
        open_before = self._failed.take(producer) or []
        left = [each for each in open_before if not any(new.settles(each) for new in batches)]
        left += [each for each in batches if each.error]
        if left:
            self._failed.put(producer, left[:OF_EACH])

    def on_init_producer_id(self, sender: Sender, transactional_id: str, timeout_ms: int, *, is_new: bool) -> None:
        """Note that a connection was given a transactional id; `is_new` unless it was to raise the epoch that it has
        (KIP-360)."""
        known = self._transactional_ids.use(transactional_id, _TransactionalId)
        known.timeout_ms = timeout_ms
        before, other = known.holder, known.holder_client_id
        if not is_new or before is sender.connection:
            return
        known.holder, known.holder_client_id = sender.connection, sender.client.client_id
        if before is None or not before.is_connected():
            return
        monotonic_ms = self._clock.monotonic_ms()
        known.takeovers.append(monotonic_ms)
        if len(known.takeovers) == TAKEOVERS and monotonic_ms - known.takeovers[0] <= TAKEOVER_WINDOW_MS:
            subject = Subject(transactional_id=transactional_id)
            seen = f"takes the id from {other or 'a client'} at {before.address}, which is connected: they take turns"
            self._note(TRANSACTIONAL_ID_SHARED, sender, transactional_id, subject, seen)

    def on_member(self, group: str, session_timeout_ms: int) -> None:
        """Note a consumer that is about to be a member, or is one."""
        self._groups.use(group, _Group).session_timeout_ms = session_timeout_ms

    def on_transactional_commit(self, sender: Sender, transactional_id: str, group: str, *, names_member: bool) -> None:
        """Note that offsets of a group became part of a transaction (TxnOffsetCommit)."""
        known = self._groups.use(group, _Group)
        known.transactional_id = transactional_id
        subject = Subject(group=group, transactional_id=transactional_id)
        session_ms = known.session_timeout_ms
        if session_ms is None:
            return
        if not names_member:
            seen = "commits offsets for the group's name alone: a member that was replaced still commits"
            self._note(GROUP_METADATA_MISSING, sender, group, subject, seen)
        producer = self._transactional_ids.get(transactional_id)
        if producer is not None and producer.timeout_ms > session_ms:
            seen = (
                f"has transaction.timeout.ms={producer.timeout_ms}, above session.timeout.ms={session_ms} of the group"
            )
            self._note(TRANSACTION_TIMEOUT, sender, group, subject, seen)

    def on_plain_commit(self, sender: Sender, group: str, topics: Sequence[str], *, names_member: bool) -> None:
        """Note that offsets of a group were committed outside of any transaction (OffsetCommit)."""
        known = self._groups.use(group, _Group)
        subject = Subject(group=group, transactional_id=known.transactional_id)
        if known.transactional_id is not None and names_member:
            seen = "commits offsets by itself, while transactions commit offsets of the same group"
        elif self._is_input_of(sender.client, topics):
            seen = "commits the offsets of what it reads by itself, while it writes in transactions"
        else:
            return
        self._note(OFFSETS_OUTSIDE_TRANSACTION, sender, group, subject, seen)

    def _is_input_of(self, client: Client, topics: Sequence[str]) -> bool:
        """Whether one of the topics is input of the program, not its own output, which it may read to check it."""
        known = self._programs.get(client.program)
        if known is None or known.writer is None or not known.writer.is_connected():
            return False
        return any(topic not in known.topics for topic in topics)

    def on_transaction_end(
        self,
        sender: Sender,
        transactional_id: str,
        producer: tuple[int, int],
        *,
        is_commit: bool,
        is_version_1: bool,
    ) -> None:
        """Note that EndTxn was accepted; `producer` is its id and epoch, `is_version_1` says which protocol it
        speaks."""
        failed = self._failed.take(producer) or ()
        if is_commit:
            for batch in failed:
                subject = Subject(topic=batch.topic, transactional_id=transactional_id)
                seen = f"commits, after a batch for partition {batch.partition} failed with {batch.error}"
                self._note(COMMIT_AFTER_FAILED_PRODUCE, sender, batch.topic, subject, seen)
        if is_version_1:
            subject = Subject(transactional_id=transactional_id)
            seen = "ends transactions by version 1: a request that comes late can be taken for one of the next"
            self._note(TORN_TRANSACTIONS, sender, "", subject, seen)

    # --- share groups -------------------------------------------------------------------------------------------------

    def on_acquired(self, shared: SharedBy, ranges: Iterable[tuple[int, int]], lock_ms: int) -> None:
        """Note that records were handed to a member of a share group; a range has its first and last offset."""
        holdings = self._holdings.use(shared, Holdings)
        until_ms = MonotonicMs(self._clock.monotonic_ms() + lock_ms)
        for first_offset, last_offset in ranges:
            holdings.hold(Held(first_offset, last_offset, lock_ms, until_ms))

    def on_acknowledged(
        self, sender: Sender, shared: SharedBy, acknowledged: Sequence[Acknowledged], lock_ms: int
    ) -> None:
        """Note an acknowledgement that was accepted; renewed locks last for `lock_ms` from now."""
        holdings = self._holdings.get(shared)
        if holdings is not None:
            until_ms = MonotonicMs(self._clock.monotonic_ms() + lock_ms)
            for first_offset, last_offset, is_renewal in acknowledged:
                if is_renewal:
                    holdings.renew(first_offset, last_offset, lock_ms, until_ms)
                else:
                    holdings.take(first_offset, last_offset)
            if not holdings:
                self._holdings.take(shared)
        if self._is_input_of(sender.client, (shared.topic,)) and not all(each.is_renewal for each in acknowledged):
            seen = "acknowledges what it reads in a share group, while it writes in transactions"
            subject = Subject(topic=shared.topic, group=shared.group)
            self._note(SHARE_GROUP_BESIDE_TRANSACTIONS, sender, shared.group, subject, seen)

    def on_refused_acknowledgement(
        self, sender: Sender, shared: SharedBy, acknowledged: Sequence[Acknowledged]
    ) -> None:
        """Note an acknowledgement of records that are not the member's, or no longer (INVALID_RECORD_STATE)."""
        holdings = self._holdings.get(shared)
        if holdings is None:
            return
        monotonic_ms = self._clock.monotonic_ms()
        held = holdings.overdue([(each.first_offset, each.last_offset) for each in acknowledged], monotonic_ms)
        if held is None:
            return
        for each in acknowledged:
            holdings.take(each.first_offset, each.last_offset)
        records = (
            f"record {held.first_offset}"
            if held.first_offset == held.last_offset
            else f"records {held.first_offset} to {held.last_offset}"
        )
        seen = (
            f"acknowledges {records} of partition {shared.partition} {monotonic_ms - held.until_ms} ms after the lock "
            f"of {held.lock_ms} ms ran out: another member may have been handed the same"
        )
        subject = Subject(topic=shared.topic, group=shared.group)
        self._note(LATE_ACKNOWLEDGEMENT, sender, shared.group, subject, seen)

    # --- findings -----------------------------------------------------------------------------------------------------

    def _note(self, kind: Kind, sender: Sender, about: str, subject: Subject, seen: str) -> Sighting:
        """Count a mistake; `about` keeps findings of one kind and program apart."""
        key = Key(kind, sender.client.program, about)
        is_new = key not in self._found
        sighting = self._found.use(key, partial(Sighting, key))
        sighting.add(sender, subject, seen, self._clock.wall_ms())
        if is_new:
            self._on_found(sighting.finding)
        return sighting

    def _beside_transactions(self, kind: Kind, sender: Sender, topic: str, seen: str) -> Sighting:
        """Note what is a mistake beside transactions: remembered until a transaction writes to the topic."""
        state = self._topics.use(topic, _Topic)
        if state.has_transactions:
            return self._note(kind, sender, topic, Subject(topic=topic), seen)
        key = Key(kind, sender.client.program, topic)
        sighting = state.waiting.use(key, partial(Sighting, key))
        sighting.add(sender, Subject(topic=topic), seen, self._clock.wall_ms())
        return sighting

    def _publish(self, sightings: Iterable[Sighting]) -> None:
        """Publish remembered sightings that have turned out to be mistakes."""
        for each in sightings:
            if each.key not in self._found:
                self._found.put(each.key, each)
                self._on_found(each.finding)
