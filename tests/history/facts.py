"""What follows from a history before any rule is asked: who wrote what, how transactions ended, what was seen where.

A transaction is committed if its commit was acknowledged, or if a read_committed reader has seen one of its records. It
is aborted if its abort was acknowledged, or if no commit of it was ever asked, or only refused. Otherwise it is
unknown, and may be either, as a whole.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tests.history.events import FINAL, NEVER, End, History, Outcome, Partition, Poll, Send, SendOffset

View = dict[int, bytes]


@dataclass
class Transaction:
    name: str
    sends: list[Send] = field(default_factory=list)
    offsets: list[SendOffset] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    was_seen: bool = False

    @property
    def commits(self) -> list[End]:
        """Return the commits that may have had an effect."""
        return [end for end in self.ends if end.is_commit and end.span.outcome is not Outcome.FAILED]

    @property
    def is_told_committed(self) -> bool:
        return any(end.is_commit and end.span.is_ok for end in self.ends)

    @property
    def is_told_aborted(self) -> bool:
        return any(not end.is_commit and end.span.is_ok for end in self.ends)

    @property
    def is_committed(self) -> bool:
        return self.is_told_committed or self.was_seen

    @property
    def is_aborted(self) -> bool:
        return self.is_told_aborted or not self.commits

    @property
    def first_commit_at(self) -> int | None:
        return min((end.span.invoked_at for end in self.commits), default=None)


class Facts:
    def __init__(self, history: History) -> None:
        self.history = history
        self.sends: dict[tuple[Partition, bytes], Send] = {}
        self.transactions: dict[str, Transaction] = {}
        for sent in history.sends:
            # The first of several tries is the one that counts.
            self.sends.setdefault((sent.partition, sent.value), sent)
            if sent.transaction is not None:
                self._transaction(sent.transaction).sends.append(sent)
        for offset in history.send_offsets:
            self._transaction(offset.transaction).offsets.append(offset)
        for end in history.ends:
            self._transaction(end.transaction).ends.append(end)
        for _, _, _, send in self.seen(is_committed=True):
            if send is not None and send.transaction is not None:
                self.transactions[send.transaction].was_seen = True

    def _transaction(self, name: str) -> Transaction:
        return self.transactions.setdefault(name, Transaction(name))

    def transaction_of(self, partition: Partition, value: bytes) -> Transaction | None:
        send = self.sends.get((partition, value))
        return self.transactions[send.transaction] if send is not None and send.transaction is not None else None

    def may_have_been_undone(self, send: Send) -> bool:
        """Whether a power cut may have undone it after the acknowledgement: its transaction was open, and so is
        aborted.
        """
        if send.transaction is None or self.transactions[send.transaction].is_committed:
            return False
        return any(send.span.completed_at < at < self.durable_at(send) for at in self.history.power_cuts)

    def durable_at(self, send: Send) -> int:
        """When an acknowledged record is known to be durable: with the end of its transaction, if it has one."""
        if send.transaction is None:
            return send.span.completed_at
        ends = self.transactions[send.transaction].ends
        return min((end.span.completed_at for end in ends if end.span.is_ok), default=NEVER)

    def seen(self, *, is_committed: bool) -> Iterator[tuple[Poll, int, bytes, Send | None]]:
        """Every record of every poll by this isolation level."""
        for poll in self.history.polls:
            if poll.is_committed == is_committed:
                for offset, value in poll.records:
                    yield poll, offset, value, self.sends.get((poll.partition, value))

    @cached_property
    def final(self) -> dict[Partition, View]:
        """The last word of a read_committed reader, for each partition that was read to the end."""
        return self._final(is_committed=True)

    @cached_property
    def final_uncommitted(self) -> dict[Partition, View]:
        return self._final(is_committed=False)

    def _final(self, *, is_committed: bool) -> dict[Partition, View]:
        views: dict[Partition, View] = {}
        for poll in self.history.polls:
            if poll.reader == FINAL and poll.is_committed == is_committed:
                views.setdefault(poll.partition, {}).update(poll.records)
        return views

    @cached_property
    def offset_of(self) -> dict[tuple[Partition, bytes], int]:
        """The offset of each record, from the log, any reader, or the answer to its producer."""
        found: dict[tuple[Partition, bytes], int] = {}
        for send in self.history.sends:
            if send.span.is_ok and send.offset >= 0:
                found.setdefault((send.partition, send.value), send.offset)
        for poll in self.history.polls:
            found.update({(poll.partition, value): offset for offset, value in poll.records})
        for partition, batches in self.history.logs.items():
            for batch in batches:
                for place, value in enumerate(batch.values):
                    found[partition, value] = batch.base_offset + place
        return found

    @cached_property
    def readers(self) -> dict[tuple[str, Partition, bool], list[Poll]]:
        """Each reader's polls of a partition, in its own order."""
        found: dict[tuple[str, Partition, bool], list[Poll]] = defaultdict(list)
        for poll in self.history.polls:
            found[poll.reader, poll.partition, poll.is_committed].append(poll)
        for polls in found.values():
            polls.sort(key=lambda poll: poll.span.invoked_at)
        return dict(found)
