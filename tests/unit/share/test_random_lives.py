"""Random histories of share-partitions: each answer is the model's, and a restart finds what the life before knew."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.protocol.errors import ErrorCode
from tests.fakes.share_coordinator import COLD_MS, TOPIC_IDS, UPDATES_PER_SNAPSHOT, Coordinating, code_of
from tests.unit.share.test_batches import BATCHES, Offsets, batches_of, offsets_of

E = ErrorCode
KEYS = [SharePartitionKey(group, TOPIC_IDS[0], partition) for group in "ab" for partition in (0, 1)]
EPOCHS = st.integers(-1, 4)
OFFSETS = st.integers(-1, 40)
COUNTS = st.integers(-1, 9)

STEPS = st.one_of(
    st.tuples(st.just("initialize"), st.sampled_from(KEYS), EPOCHS, OFFSETS),
    st.tuples(st.just("write"), st.sampled_from(KEYS), EPOCHS, EPOCHS, OFFSETS, COUNTS, BATCHES),
    st.tuples(st.just("write"), st.sampled_from(KEYS), st.just(4), st.just(4), OFFSETS, COUNTS, BATCHES),
    st.tuples(st.just("read"), st.sampled_from(KEYS), EPOCHS),
    st.tuples(st.just("delete"), st.sampled_from(KEYS)),
    st.tuples(st.just("summary"), st.sampled_from(KEYS), EPOCHS),
    st.tuples(st.just("pass"), st.sampled_from((1, COLD_MS))),
    st.tuples(st.just("restart")),
)


@dataclass
class Model:
    state_epoch: int
    leader_epoch: int
    start_offset: int
    count: int
    highest_state_epoch: int
    highest_leader_epoch: int
    offsets: Offsets = field(default_factory=dict)
    update_count: int = 0

    def renew(self) -> None:
        """It is written with the epochs that fence."""
        self.state_epoch, self.leader_epoch = self.highest_state_epoch, self.highest_leader_epoch
        self.update_count = 0

    def log(self) -> None:
        """Count an update; after so many of them a snapshot follows."""
        self.update_count += 1
        if self.update_count > UPDATES_PER_SNAPSHOT:
            self.renew()

    @property
    def state(self) -> ShareState:
        return ShareState(self.state_epoch, self.leader_epoch, self.start_offset, self.count, batches_of(self.offsets))

    def write(self, start_offset: int, count: int, batches: list[StateBatch]) -> None:
        if start_offset != -1:
            self.start_offset = start_offset
        self.count = count
        # What is below the start of its own write is not written.
        found = offsets_of([*batches_of(self.offsets), *batches])
        self.offsets = {offset: state for offset, state in found.items() if offset >= self.start_offset}
        self.log()


class Models:
    """The state that the coordinator should have, and its answers."""

    def __init__(self) -> None:
        self.of: dict[SharePartitionKey, Model] = {}

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Any:
        before = self.of.get(key)
        highest = (state_epoch, 0)
        if before is not None:
            if -1 < state_epoch < before.highest_state_epoch:
                return E.FENCED_STATE_EPOCH
            highest = (max(state_epoch, before.highest_state_epoch), before.highest_leader_epoch)
        self.of[key] = Model(state_epoch, 0, start_offset, -1 if start_offset == -1 else 0, *highest)
        return None

    def write(
        self, key: SharePartitionKey, state_epoch: int, leader_epoch: int, start: int, count: int, batches: Any
    ) -> Any:
        share = self.of.get(key)
        if share is None:
            return E.INVALID_REQUEST
        if -1 < leader_epoch < share.highest_leader_epoch:
            return E.FENCED_LEADER_EPOCH
        if -1 < state_epoch < share.highest_state_epoch:
            return E.FENCED_STATE_EPOCH
        share.write(start, count, batches)
        return None

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Any:
        share = self.of.get(key)
        if share is None:
            return E.INVALID_REQUEST
        if leader_epoch < share.highest_leader_epoch:
            return E.FENCED_LEADER_EPOCH
        if leader_epoch > share.highest_leader_epoch:
            read = share.state
            share.leader_epoch = share.highest_leader_epoch = leader_epoch
            share.log()
            return read._replace(leader_epoch=leader_epoch)
        return share.state._replace(leader_epoch=leader_epoch)

    def delete(self, key: SharePartitionKey) -> Any:
        self.of.pop(key, None)

    def summary(self, key: SharePartitionKey, leader_epoch: int) -> Any:
        share = self.of.get(key)
        return ShareState(0, 0, -1, -1, ()) if share is None else share.state._replace(batches=())


@given(st.lists(STEPS, max_size=40))
def test_each_answer_is_the_models_and_a_restart_changes_nothing(steps: list[tuple[Any, ...]]) -> None:
    at, models = Coordinating(), Models()
    for name, *arguments in steps:
        if name == "pass":
            at.time.advance(*arguments)
            at.coordinator.step()
            for key, (snapshot, *_) in at.stored().items():
                if snapshot.written_ms == at.time.wall_ms() != snapshot.created_ms:
                    models.of[key].renew()
        elif name == "restart":
            before = at.stored()
            at = at.restarted()
            assert at.stored() == before
        else:
            answered = getattr(at.coordinator, name)(*arguments)
            expected = getattr(models, name)(*arguments)
            assert (code_of(answered) or answered.result()) == expected
    assert {key: snapshot.state for key, (snapshot, *_) in at.stored().items()} == {
        key: share.state for key, share in models.of.items()
    }
    assert at.restarted().stored() == at.stored()
