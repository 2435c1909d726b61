"""A conversation about what a partition takes: each line of the tables of batches and markers that frames bring about.

Owns: how each state is brought about by requests, and which lines are left out: a transactional batch of an epoch that
no producer was given never reaches the partition, since the coordinator refuses it, and the last epoch is 33,000
requests away. Every question has a partition and a transactional id of its own. Does not own: the tables
(`tests.support.logs.append_tables`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.clients.asking import Broker, one_partition
from tests.clients.conversation import IMPLICIT, VERIFIED, Conversation, Producer
from tests.conformance.transcripts.append_transcript import marker
from tests.conformance.transcripts.transaction_transcript import prepare
from tests.support.logs.append_tables import BATCHES, KINDS, MARKERS, rows

TOPIC = "partitions"
EPOCH = 3
"""The epoch in the tables."""
COORDINATOR_EPOCH = 5
_LAST_SEQUENCE = 2**31 - 1
_LATEST = -1
NOT_BY_FRAMES = ("open_at_the_last",)


@dataclass(slots=True)
class Place:
    """One partition, and the producer that has been there."""

    talk: Conversation
    partition: int
    producer: Producer

    def write(self, sequence: int, count: int = 1, *, epoch: int = EPOCH, **how: Any) -> str:
        end = self.end
        producer = self.producer.but(producer_epoch=epoch)
        error, base_offset = producer.produce(self.partition, topic=TOPIC, sequence=sequence, count=count, **how)
        if error != "NONE":
            return error
        return "written" if base_offset == end else "duplicate"

    def mark(self, epoch: int = EPOCH, coordinator_epoch: int = COORDINATOR_EPOCH, version: int = 0) -> str:
        (error,) = marker(
            self.talk,
            TOPIC,
            self.producer.but(producer_epoch=epoch),
            commit=True,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
            version=2,
            partitions=(self.partition,),
        )
        return error

    @property
    def end(self) -> int:
        asked = {"replica_id": -1, "topics": one_partition(TOPIC, self.partition, timestamp=_LATEST)}
        while (answer := self.talk.ask("ListOffsets", 7, **asked).topics[0].partitions[0]).error_code:
            self.talk.broker.let_pass(100)  # a topic may be there before its partitions are
        return int(answer.offset)

    def add(self) -> None:
        must(self.producer.add(self.partition, topic=TOPIC), ["NONE"])


def must(answer: Any, expected: Any) -> None:
    if answer != expected:
        raise AssertionError(f"{answer}, not {expected}")


# --- the states -------------------------------------------------------------------------------------------------------


def _nothing(place: Place) -> None:
    pass


def _plain(place: Place) -> None:
    for sequence in range(6):
        must(place.write(sequence, transactional=False), "written")


def _opened(place: Place) -> None:
    must(place.mark(), "NONE")
    place.add()
    for sequence in range(2):
        must(place.write(sequence), "written")


def _ended(place: Place) -> None:
    _opened(place)
    must(place.mark(), "NONE")


def _bumped(place: Place) -> None:
    for sequence in range(2):
        must(place.write(sequence, epoch=EPOCH - 1, version=IMPLICIT), "written")


def _bumped_by_its_end(place: Place) -> None:
    _bumped(place)
    place.producer = place.producer.ended(True, 5)


def _bumped_by_a_marker(place: Place) -> None:
    _bumped(place)
    must(place.mark(version=2), "NONE")


def _wrapped(place: Place) -> None:
    must(place.write(_LAST_SEQUENCE - 1, 2, transactional=False), "written")


def _refused(place: Place) -> None:
    must(place.write(0, version=VERIFIED), "TRANSACTION_ABORTABLE")


STATES: dict[str, Callable[[Place], None]] = {
    "nothing": _nothing,
    "plain": _plain,
    "opened": _opened,
    "ended": _ended,
    "wrapped": _wrapped,
    "refused": _refused,
    "bumped": _bumped_by_its_end,
}


def _brought(talk: Conversation, partition: int, state: str, bring: Callable[[Place], None]) -> Place:
    """A producer whose epoch is that of the state: `bumped` begins at the one before."""
    transactional_id = f"{TOPIC} {partition}"
    for _ in range(EPOCH if state == "bumped" else EPOCH + 1):
        producer = talk.started(transactional_id)
    place = Place(talk, partition, producer)
    must(place.end, 0)
    bring(place)
    return place


# --- the questions ----------------------------------------------------------------------------------------------------


def lines_of_batches() -> Iterator[tuple[str, str, str, bool, int, str]]:
    """State, epoch, sequences, is it transactional, the version, and what the table says."""
    for state, epoch, sequences, *outcomes in rows(BATCHES):
        for (transactional, version), outcome in zip(KINDS, outcomes, strict=True):
            if not (transactional and int(epoch) > EPOCH):
                yield state, epoch, sequences, transactional, version, outcome


def lines_of_markers() -> Iterator[tuple[str, str, str, int, str]]:
    """State, epoch, coordinator epoch, the version, and what the table says."""
    for state, epoch, coordinator_epoch, *outcomes in rows(MARKERS):
        if state not in NOT_BY_FRAMES:
            for version, outcome in zip((0, 2), outcomes, strict=True):
                yield state, epoch, coordinator_epoch, version, outcome


def conversation(broker: Broker, wall_ms: int) -> Iterator[tuple[str, str]]:
    """Every question and its answer; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    batches, markers = list(lines_of_batches()), list(lines_of_markers())
    talk.create_empty_topic(TOPIC, len(batches) + len(markers))
    for partition, (state, epoch, sequences, transactional, version, _) in enumerate(batches):
        place = _brought(talk, partition, state, STATES[state])
        if transactional and int(epoch) == EPOCH and state != "opened":
            place.add()
        count, _, first = sequences.rpartition(" of ")
        answer = place.write(
            int(first),
            int(count or 1),
            epoch=int(epoch),
            transactional=transactional,
            version=IMPLICIT if version == 2 else VERIFIED,
        )
        yield batch_question(state, epoch, sequences, transactional, version), answer
    states = STATES | {"bumped": _bumped_by_a_marker}
    for partition, (state, epoch, coordinator_epoch, version, _) in enumerate(markers, start=len(batches)):
        place = _brought(talk, partition, state, states[state])
        answer = place.mark(int(epoch), int(coordinator_epoch), version)
        yield marker_question(state, epoch, coordinator_epoch, version), answer


def batch_question(state: str, epoch: str, sequences: str, transactional: bool, version: int) -> str:
    kind = f"transactional of version {max(1, version)}" if transactional else "plain"
    return f"{state}, epoch {epoch}, sequence {sequences}, {kind}"


def marker_question(state: str, epoch: str, coordinator_epoch: str, version: int) -> str:
    return f"{state}, a marker of epoch {epoch} and coordinator epoch {coordinator_epoch}, version {max(1, version)}"
