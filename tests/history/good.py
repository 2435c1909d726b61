"""Good histories: those of a broker without faults, whose clients are slow, die, come back, and lose answers.

Owns: the choice of what happens next, from one source of randomness that hypothesis gives. In each life every kind of
event happens at least once, so that every anomaly can be planted in any of them.
"""

from collections.abc import Iterator
from random import Random

from tests.history.events import (
    FINAL,
    NEVER,
    Bounds,
    Damage,
    End,
    Generation,
    GroupCommit,
    History,
    Identity,
    Init,
    Leading,
    LogBatch,
    Look,
    OffsetFetch,
    Outcome,
    Partition,
    Poll,
    Restart,
    Send,
    SendOffset,
    Span,
    States,
    Step,
)

LEGS: tuple[Partition, ...] = (("ledger", 0), ("ledger", 1))
INPUT: Partition = ("input", 0)
OUTPUT: Partition = ("output", 0)
WORN: Partition = ("worn", 0)
GROUP = "pipeline"
_READ = (*LEGS, INPUT, OUTPUT)


class Life:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.history = History(slack_ms=1_000, pipelines=[(GROUP, INPUT, OUTPUT)])
        self.history.logs = {partition: [] for partition in (*_READ, WORN)}
        self._tick = 0
        self._producer_ids = 0
        self._epochs: dict[str, Identity] = {}
        self._sequences: dict[tuple[Partition, Identity], int] = {}
        self._open: dict[str, dict[Partition, int]] = {}
        self._identities: dict[str, Identity] = {}
        self._aborted: set[tuple[Partition, int]] = set()
        self._committed = -1
        self._leader_epoch = 0
        self._lead()

    def run(self) -> History:
        actors = [self._transfers("one"), self._transfers("two"), self._feeds(), self._processes(), self._members()]
        actors += [self._reads(f"reader-{name}", name == "committed") for name in ("committed", "uncommitted")]
        actors.append(self._restarts())
        while actors:
            actor = self.random.choice(actors)
            if next(actor, None) is None:
                actors.remove(actor)
        self._finish()
        return self.history

    def _lead(self) -> None:
        start = len(self.history.restarts)
        for partition in self.history.logs:
            self.history.leading.append(Leading(self._span(), partition, self._leader_epoch, start))

    # --- the broker ---------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        self._tick += 1
        return self._tick

    def _span(self, outcome: Outcome = Outcome.OK) -> Span:
        at = self._now()
        return Span(at, NEVER if outcome is Outcome.UNKNOWN else self._now(), outcome)

    def _end_of(self, partition: Partition) -> int:
        batches = self.history.logs[partition]
        return batches[-1].last_offset + 1 if batches else 0

    def _stable_end(self, partition: Partition) -> int:
        return min([o[partition] for o in self._open.values() if partition in o] + [self._end_of(partition)])

    def _id_of(self, identity: Identity) -> str:
        return next(name for name, known in self._epochs.items() if known[0] == identity[0])

    def _log(self, transactional_id: str, identity: Identity, state: str) -> None:
        self.history.steps.append(Step(transactional_id, state, identity))

    def init(self, session: str, transactional_id: str) -> Identity:
        known = self._epochs.get(transactional_id)
        if known is None:
            self._producer_ids += 1
            identity = self._producer_ids, 0
        else:
            identity = known[0], known[1] + 1
        self._epochs[transactional_id] = identity
        for name in [name for name, owner in self._identities.items() if owner[0] == identity[0]]:
            self._end(name, commit=False)
        self._log(transactional_id, identity, "EMPTY")
        self.history.inits.append(Init(self._span(), session, transactional_id, identity))
        return identity

    def send(
        self,
        session: str,
        transaction: str | None,
        partition: Partition,
        value: bytes,
        identity: Identity,
        source: tuple[Partition, int] | None = None,
    ) -> Send:
        sequence = self._sequences.get((partition, identity), 0)
        self._sequences[partition, identity] = sequence + 1
        offset, began = self._end_of(partition), self._now()
        batch = LogBatch(
            offset,
            offset,
            identity,
            sequence,
            transaction is not None,
            (value,),
            None,
            self._tick,
            True,
            self._leader_epoch,
        )
        self.history.logs[partition].append(batch)
        if transaction is not None:
            if partition not in self._open.setdefault(transaction, {}):
                self._open[transaction][partition] = offset
                self._log(self._id_of(identity), identity, "ONGOING")
            self._identities[transaction] = identity
        span = Span(began, self._now(), Outcome.OK)
        sent = Send(
            span, session, transaction, partition, value, identity, sequence, offset, at_ms=self._tick, source=source
        )
        self.history.sends.append(sent)
        return sent

    def _end(self, transaction: str, *, commit: bool) -> None:
        """End the transaction as the coordinator does, on a client's request or by itself."""
        identity = self._identities.pop(transaction, None)
        if identity is not None and transaction in self._open:
            for state in ("PREPARE_COMMIT", "COMPLETE_COMMIT") if commit else ("PREPARE_ABORT", "COMPLETE_ABORT"):
                self._log(self._id_of(identity), identity, state)
        for partition, first_offset in self._open.pop(transaction, {}).items():
            batches = self.history.logs[partition]
            if not commit:
                self._aborted |= {
                    (partition, batch.base_offset)
                    for batch in batches
                    if batch.base_offset >= first_offset and batch.identity == identity and batch.marker is None
                }
            offset = self._end_of(partition)
            marker = LogBatch(
                offset, offset, identity or (-1, -1), -1, True, (), commit, self._tick, True, self._leader_epoch
            )
            batches.append(marker)

    def end(self, session: str, transaction: str, *, commit: bool, is_told: bool = True, happens: bool = True) -> None:
        identity = self._identities[transaction]
        began = self._now()
        if happens:
            self._end(transaction, commit=commit)
        span = Span(began, self._now(), Outcome.OK) if is_told else Span(began)
        self.history.ends.append(End(span, session, transaction, commit, identity, identity if is_told else None))

    def poll(
        self, reader: str, partition: Partition, from_offset: int, *, is_committed: bool, transaction: str | None = None
    ) -> Poll:
        began = self._now()
        end = self._stable_end(partition) if is_committed else self._end_of(partition)
        if reader != FINAL:
            end = min(end, from_offset + self.random.randint(1, 6))
        records = tuple(
            (batch.base_offset, batch.values[0])
            for batch in self.history.logs[partition]
            if from_offset <= batch.base_offset < end and batch.values
            if not (is_committed and (partition, batch.base_offset) in self._aborted)
        )
        span = Span(began, self._now(), Outcome.OK)
        found = Poll(span, reader, is_committed, partition, from_offset, max(end, from_offset), records, transaction)
        self.history.polls.append(found)
        return found

    def bounds(self, partition: Partition) -> None:
        stable, end = self._stable_end(partition), self._end_of(partition)
        self.history.bounds.append(Bounds(self._span(), partition, 0, stable, end))

    # --- its clients --------------------------------------------------------------------------------------------------

    def _transfers(self, transactional_id: str) -> Iterator[bool]:
        """Committed, aborted, with answers lost; then a second incarnation fences the first."""
        session = f"{transactional_id}.first"
        identity = self.init(session, transactional_id)
        fates = ["commit", "abort", "unknown commit", "unknown", *self.random.choices(["commit", "abort"], k=3)]
        self.random.shuffle(fates)
        for number, fate in enumerate(fates):
            name = f"{session}:{number}"
            for leg in self.random.sample(LEGS, len(LEGS)):
                self.send(session, name, leg, f"{name}/{leg[1]}".encode(), identity)
                yield True
            self.end(session, name, commit=fate != "abort", is_told="unknown" not in fate, happens=fate != "unknown")
            yield True
            if "unknown" in fate:
                # The outcome is unknown to the client, which starts again; what had not happened is aborted.
                session = f"{session}'"
                identity = self.init(session, transactional_id)
        zombie = f"{session}:zombie"
        self.send(session, zombie, LEGS[0], zombie.encode(), identity)
        yield True
        self.init(f"{transactional_id}.second", transactional_id)
        refused = self._span(Outcome.FAILED)
        self.history.sends.append(Send(refused, session, zombie, LEGS[1], zombie.encode(), identity, 99))
        self.history.ends.append(End(self._span(Outcome.FAILED), session, zombie, True, identity))

    def _feeds(self) -> Iterator[bool]:
        self._producer_ids += 1
        identity = self._producer_ids, 0
        for number in range(8):
            sent = self.send("feeder", None, INPUT, b"input-%d" % number, identity)
            if number == 3:
                # It comes again, and gets the answer of the first time.
                again = Send(self._span(), *_rest(sent))
                self.history.sends.append(again)
            yield True
        for number in range(3):
            self.send("feeder", None, WORN, b"worn-%d" % number, identity)

    def _processes(self) -> Iterator[bool]:
        session = "processor"
        identity = self.init(session, "processor")
        for number in range(12):
            name = f"{session}:{number}"
            # A reader of its own each time: it starts where the group has committed.
            found = self.poll(name, INPUT, max(0, self._committed), is_committed=True, transaction=name)
            yield True
            if not found.records:
                continue
            for offset, value in found.records:
                self.send(session, name, OUTPUT, value + f"|{name}".encode(), identity, (INPUT, offset))
                yield True
            offset = found.next_offset
            self.history.send_offsets.append(
                SendOffset(self._span(), session, name, GROUP, INPUT, offset, identity, generation=1)
            )
            yield True
            commits = self._committed < 0 or self.random.random() < 0.7
            self.end(session, name, commit=commits)
            self._committed = offset if commits else self._committed
            self.fetch_offset()
            yield True

    def fetch_offset(self) -> None:
        self.history.offset_fetches.append(OffsetFetch(self._span(), GROUP, INPUT, self._committed))

    def _members(self) -> Iterator[bool]:
        for generation in range(1, 4):
            owners = self.random.sample(["ann", "ben"], 2)
            for member, partition in zip(owners, LEGS, strict=True):
                self.history.generations.append(Generation(self._now(), "pair", generation, member, (partition,)))
                yield True
            for member, partition in zip(owners, LEGS, strict=True):
                committed = GroupCommit(self._span(), "pair", partition, generation, member, generation)
                self.history.group_commits.append(committed)
                self.history.offset_fetches.append(OffsetFetch(self._span(), "pair", partition, generation))
                yield True

    def look(self) -> None:
        """Look at all partitions at once."""
        self.history.looks.append(Look(tuple((partition, self._end_of(partition)) for partition in _READ)))

    def _reads(self, reader: str, is_committed: bool) -> Iterator[bool]:
        positions = dict.fromkeys(_READ, 0)
        for _ in range(25):
            partition = self.random.choice(_READ)
            positions[partition] = self.poll(
                reader, partition, positions[partition], is_committed=is_committed
            ).next_offset
            self.bounds(partition)
            self.look()
            yield True

    def _restarts(self) -> Iterator[bool]:
        for kind in ("kill", "power cut", "clean"):
            yield True
            self.history.restarts.append(Restart(self._now(), kind))
            self._leader_epoch += self.random.choice([1, 2])
            self._lead()
            state = f"state of {self._tick}"
            self.history.states.append(States(self._tick, state, state))
            self.history.states.append(States(self._tick, state, state, is_second_recovery=True))

    def _finish(self) -> None:
        for name in list(self._open):
            self._end(name, commit=False)
        self.fetch_offset()
        for partition in _READ:
            self.bounds(partition)
            for is_committed in (True, False):
                self.poll(FINAL, partition, 0, is_committed=is_committed)
        self.bounds(WORN)
        self.history.damages.append(Damage(self._now(), WORN, 1, 1))
        self.history.polls.append(Poll(self._span(), "careful", True, WORN, 0, 0, (), error="CORRUPT_MESSAGE"))
        self.bounds(WORN)


def _rest(sent: Send) -> tuple[str, str | None, Partition, bytes, Identity, int, int]:
    return sent.session, sent.transaction, sent.partition, sent.value, sent.identity, sent.sequence, sent.offset
