"""The lives of a coordinator's partitions: each is gained, replayed, lost and damaged by itself."""

from collections.abc import Iterator

import pytest

from oncelog.broker.coordinator import loading as loading_module
from oncelog.broker.coordinator.life import (
    VALID_PREVIOUS_STATES,
    IllegalTransition,
    LifeState,
    check_transition,
    mermaid,
)
from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.coordinator.log import Piece
from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.partitioning import coordinator_partition
from tests.fakes.coordinator_log import MemoryCoordinatorLog, MemoryTopic
from tests.fakes.virtual_time import VirtualTime

PARTITIONS = 3
KEYS = [
    next(key for key in map(str, range(100)) if coordinator_partition(key, PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
"""One for each partition."""
E = ErrorCode


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", LifeState)
@pytest.mark.parametrize("previous", LifeState)
def test_a_move_is_legal_exactly_when_the_table_has_it(previous: LifeState, target: LifeState) -> None:
    if previous in VALID_PREVIOUS_STATES[target]:
        check_transition(previous, target)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(previous, target)


def test_every_life_may_end_and_none_begins_again() -> None:
    assert VALID_PREVIOUS_STATES[LifeState.RESIGNED] == set(LifeState) - {LifeState.RESIGNED}
    assert not any(LifeState.RESIGNED in sources for sources in VALID_PREVIOUS_STATES.values())


def test_the_diagram_shows_every_move_of_the_table() -> None:
    lines = {line.strip() for line in mermaid().splitlines()}
    for target, sources in VALID_PREVIOUS_STATES.items():
        assert {f"{source.value} --> {target.value}" for source in sources} <= lines


# --- a runtime --------------------------------------------------------------------------------------------------------


class Words:
    """A shard that knows the keys of its records."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.known: list[bytes] = []
        self.ends: list[bool] = []
        self.last_offset = -1
        self.is_active = False

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        assert offset > self.last_offset
        self.last_offset = offset
        self.known.append(record.key)

    def replay_end_transaction_marker(self, marker: EndMarker, offset: int) -> None:
        self.ends.append(marker.committed)

    def on_active(self) -> None:
        assert not self.is_active
        self.is_active = True

    def on_resigned(self) -> None:
        assert self.is_active
        self.is_active = False


class Stage:
    def __init__(self, *logs: MemoryCoordinatorLog) -> None:
        self.time = VirtualTime()
        self.topic = MemoryTopic(*(logs or [MemoryCoordinatorLog(flushes_by_itself=False) for _ in KEYS]))
        self.epoch: int | None = 0
        self.failures: list[KafkaError] = []
        self.made: list[Words] = []
        self.runtime: CoordinatorRuntime[Words] = CoordinatorRuntime(
            "__words",
            self.topic,
            self._make,
            self.time,
            CoordinatorLoading(self.time),
            lambda topic, partition: self.epoch,
            self.failures.append,
        )

    def _make(self, partition: int, epoch: int) -> Words:
        self.made.append(Words(partition, epoch))
        return self.made[-1]

    def write(self, partition: int, word: str) -> Completion[str]:
        record = CoordinatorRecord(word.encode(), b"")
        return self.runtime.write(KEYS[partition], lambda _: WriteResult([record], word))

    def known(self, partition: int) -> list[bytes]:
        return self.runtime.shard(KEYS[partition]).known

    def refusal(self, partition: int) -> ErrorCode | None:
        try:
            self.runtime.shard(KEYS[partition])
        except KafkaError as error:
            return error.code
        return None

    def marker(self, partition: int) -> Completion[None]:
        try:
            self.runtime.append_marker(partition, EndMarker(1, 0, True, 0), WallMs(0))
        except KafkaError as error:
            return Completion.failed(error)
        return self.runtime.when_durable(partition)


def filled(*words: str) -> MemoryCoordinatorLog:
    log = MemoryCoordinatorLog(flushes_by_itself=False)
    for word in words:
        log.write(CoordinatorRecord(word.encode(), b""))
    log.flush()
    return log


def code(completion: Completion[str]) -> object:
    error = completion.error
    return error.code if isinstance(error, KafkaError) else error


def test_a_partition_without_records_serves_at_once() -> None:
    stage = Stage()
    written = stage.write(0, "a")
    assert (stage.known(0), written.done) == ([b"a"], False)
    stage.topic.logs[0].flush()
    assert written.result() == "a"


def test_a_request_on_a_partition_with_records_replays_none_of_them_and_the_others_serve_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading_module, "RECORDS_IN_A_SLICE", 2)
    stage = Stage(filled("a", "b", "c"), filled(), filled("x"))
    assert code(stage.write(0, "z")) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.made == []
    stage.time.turn()
    assert not any(shard.known for shard in stage.made)
    assert stage.refusal(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    stage.write(1, "y")
    assert stage.known(1) == [b"y"]
    with pytest.raises(KafkaError, match="replayed"):
        stage.runtime.check_loaded()
    stage.time.settle()
    assert stage.known(0) == [b"a", b"b", b"c"]
    assert [shard.partition for shard in stage.runtime.shards()] == [0, 1]


def test_a_start_gains_what_has_records_and_only_that() -> None:
    stage = Stage(filled("a"), filled(), filled("x", "y"))
    stage.runtime.gain_all()
    stage.time.settle()
    assert [(shard.partition, len(shard.known)) for shard in stage.runtime.shards()] == [(0, 1), (2, 2)]


def test_only_waiters_of_a_lost_partition_are_notified_and_at_once() -> None:
    stage = Stage()
    lost, ended, kept = stage.write(0, "a"), stage.marker(0), stage.write(1, "b")
    stage.runtime.lose(0)
    assert isinstance(ended.error, KafkaError)
    assert code(lost) is ended.error.code is E.NOT_COORDINATOR
    assert not kept.done
    assert not stage.made[0].is_active
    for log in stage.topic.logs:
        log.flush()
    assert kept.result() == "b"
    assert stage.refusal(0) is E.NOT_COORDINATOR
    assert code(stage.write(0, "c")) is E.NOT_COORDINATOR
    assert [shard.partition for shard in stage.runtime.shards()] == [1]


def test_a_partition_gained_again_is_replayed_into_a_new_shard_as_often_as_that_comes() -> None:
    stage = Stage()
    for epoch, word in enumerate(("a", "b", "c"), start=1):
        stage.runtime.gain(0, epoch)
        stage.time.settle()
        stage.write(0, word)
        stage.marker(0)
        stage.topic.logs[0].flush()
        stage.runtime.lose(0)
        stage.runtime.lose(0)
    stage.runtime.gain(0, 4)
    stage.time.settle()
    assert stage.known(0) == [b"a", b"b", b"c"]
    assert [(shard.epoch, shard.is_active) for shard in stage.made] == [(1, False), (2, False), (3, False), (4, True)]


def test_a_later_epoch_ends_the_life_before_and_an_earlier_or_equal_one_changes_nothing() -> None:
    stage = Stage()
    stage.runtime.gain(0, 5)
    written = stage.write(0, "a")
    for epoch in (4, 5):
        stage.runtime.gain(0, epoch)
    assert (stage.known(0), written.done) == ([b"a"], False)
    stage.runtime.gain(0, 6)
    assert code(written) is E.NOT_COORDINATOR
    assert stage.refusal(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    stage.topic.logs[0].flush()
    stage.time.settle()
    assert (stage.known(0), stage.runtime.shard(KEYS[0]).epoch) == ([b"a"], 6)
    stage.runtime.lose(0)
    stage.runtime.gain(0, 5)
    assert stage.refusal(0) is E.NOT_COORDINATOR, "an epoch that is over"


def test_a_partition_lost_while_it_is_replayed_never_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_module, "RECORDS_IN_A_SLICE", 1)
    stage = Stage(filled("a", "b"), filled(), filled())
    stage.runtime.gain(0, 1)
    while not any(shard.known for shard in stage.made):
        stage.time.turn()
    stage.runtime.lose(0)
    stage.time.settle()
    assert (stage.made[0].known, stage.made[0].is_active) == ([b"a"], False)
    assert stage.refusal(0) is E.NOT_COORDINATOR
    stage.runtime.check_loaded()


def test_what_another_node_leads_is_not_touched() -> None:
    stage = Stage(filled("a"), filled(), filled())
    stage.epoch = None
    stage.runtime.gain_all()
    stage.time.settle()
    assert {stage.refusal(partition) for partition in range(PARTITIONS)} == {E.NOT_COORDINATOR}
    assert stage.made == []


def test_a_log_that_cannot_be_replayed_fails_its_partition_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = filled("a")
    damaged.write(CoordinatorRecord(b"b", b""))
    damaged.flush()
    stage = Stage(damaged, filled("x"), filled())
    replay = damaged.replay

    def broken() -> Iterator[Piece | Completion[Piece]]:
        yield next(replay())
        raise KafkaError(E.CORRUPT_MESSAGE, "a flipped bit")

    monkeypatch.setattr(damaged, "replay", broken)
    stage.runtime.gain_all()
    stage.time.settle()
    assert stage.refusal(0) is E.COORDINATOR_NOT_AVAILABLE
    assert [str(error) for error in stage.failures] == ["__words cannot be replayed: a flipped bit"]
    assert stage.known(1) == [b"x"]
    stage.runtime.check_loaded()
    monkeypatch.undo()
    stage.runtime.gain(0, 0)  # it was repaired
    stage.time.settle()
    assert stage.known(0) == [b"a", b"b"]


def test_a_log_that_is_offline_fails_its_partition_before_anything_is_replayed() -> None:
    stage = Stage(filled("a"), filled("x"), filled())
    stage.topic.logs[0].offline_error = "words-0 is offline"
    stage.runtime.gain_all()
    assert [str(error) for error in stage.failures] == ["__words cannot be replayed: words-0 is offline"]
    stage.time.settle()
    assert (stage.refusal(0), stage.known(1)) == (E.COORDINATOR_NOT_AVAILABLE, [b"x"])


def test_pieces_that_come_later_are_waited_for_while_the_others_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[Completion[Piece]] = []

    slow = filled("a", "b", "c")
    batches = list(slow.batches())

    def pieces() -> Iterator[Piece | Completion[Piece]]:
        yield batches[:1]
        for _ in batches[1:]:
            later.append(Completion())
            yield later[-1]
            assert later[-1].done

    monkeypatch.setattr(slow, "replay", pieces)
    stage = Stage(slow, filled("x"), filled())
    stage.runtime.gain_all()
    stage.time.settle()
    assert (stage.refusal(0), stage.known(1)) == (E.COORDINATOR_LOAD_IN_PROGRESS, [b"x"])
    for batch in batches[1:]:
        later[-1].complete([batch])
        assert stage.refusal(0) is E.COORDINATOR_LOAD_IN_PROGRESS
        stage.time.settle()
    assert stage.known(0) == [b"a", b"b", b"c"]


def test_a_partition_lost_while_a_piece_is_on_its_way_is_not_read_any_further(monkeypatch: pytest.MonkeyPatch) -> None:
    later: Completion[Piece] = Completion()

    def pieces() -> Iterator[Piece | Completion[Piece]]:
        yield later
        raise AssertionError("this node has no business with the log any more")

    stage = Stage(filled("a"), filled(), filled())
    monkeypatch.setattr(stage.topic.logs[0], "replay", pieces)
    stage.runtime.gain(0, 1)
    stage.time.settle()
    stage.runtime.lose(0)
    later.complete([])
    stage.time.settle()
    assert stage.refusal(0) is E.NOT_COORDINATOR


@pytest.mark.parametrize("told_by_the_wait", [True, False])
def test_a_piece_that_cannot_be_had_fails_the_partition(
    monkeypatch: pytest.MonkeyPatch, told_by_the_wait: bool
) -> None:
    later: Completion[Piece] = Completion()
    error = KafkaError(E.CORRUPT_MESSAGE, "no answer")

    def pieces() -> Iterator[Piece | Completion[Piece]]:
        yield later
        raise error

    stage = Stage(filled("a"), filled(), filled())
    monkeypatch.setattr(stage.topic.logs[0], "replay", pieces)
    stage.runtime.gain_all()
    stage.time.settle()
    if told_by_the_wait:
        later.fail(error)
    else:
        later.complete([])
    stage.time.settle()
    assert stage.refusal(0) is E.COORDINATOR_NOT_AVAILABLE
    assert [str(failure) for failure in stage.failures] == ["__words cannot be replayed: no answer"]


def test_a_log_that_cannot_be_read_for_a_while_is_replayed_as_soon_as_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces() -> Iterator[Piece | Completion[Piece]]:
        raise KafkaError(E.KAFKA_STORAGE_ERROR, "too many open files")
        yield []

    stage = Stage(filled(), filled("x"), filled())
    stage.write(2, "z")  # it has caught up
    stage.topic.logs[0].write(CoordinatorRecord(b"a", b""))
    stage.topic.logs[0].flush()
    stage.runtime.gain(1, 1)
    stage.time.settle()
    monkeypatch.setattr(stage.topic.logs[0], "replay", pieces)
    stage.runtime.gain(0, 1)
    stage.time.advance(5_000)
    assert (stage.refusal(0), stage.known(1), stage.failures) == (E.COORDINATOR_LOAD_IN_PROGRESS, [b"x"], [])
    monkeypatch.undo()
    stage.time.advance(1_000)
    assert stage.known(0) == [b"a"]


def test_what_the_life_before_has_logged_counts_once_it_is_durable() -> None:
    stage = Stage()
    stage.write(0, "a")
    stage.runtime.lose(0)
    stage.runtime.gain(0, 1)
    stage.time.settle()
    assert stage.refusal(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    stage.topic.logs[0].flush()
    stage.time.settle()
    assert stage.known(0) == [b"a"]


def test_with_its_topic_every_life_ends_and_a_new_topic_has_nothing_of_it() -> None:
    stage = Stage()
    waiting = [stage.write(partition, "a") for partition in range(PARTITIONS)]
    stage.topic.exists = False
    stage.runtime.on_topic_changed("__words")
    assert {code(written) for written in waiting} == {E.NOT_COORDINATOR}
    assert not any(shard.is_active for shard in stage.made)
    stage.topic.exists = True
    stage.topic.logs = [MemoryCoordinatorLog() for _ in KEYS]
    assert stage.write(0, "b").result() == "b"
    assert stage.known(0) == [b"b"]
