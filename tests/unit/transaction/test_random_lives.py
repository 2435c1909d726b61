"""Many instances of one transactional id, crashes anywhere, both protocols mixed, the feature level switched at any
step, open transactions taken over: what must hold of any history."""

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata, check_step
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.coordinator.transaction.states import COMPLETED, PREPARED, TransactionState
from oncelog.protocol.errors import ErrorCode
from tests.support.samples import examples
from tests.unit.transaction.harness import P0, P1, TIMEOUT_MS, Asked, Coordinator

WEIGHTS = {
    "init": 1,
    "resume": 1,
    "take over": 1,
    "switch": 1,
    "add": 5,
    "commit": 3,
    "abort": 2,
    "flush": 8,
    "marker": 4,
    "wait": 2,
    "timeout": 1,
    "crash": 1,
}
STEPS = tuple(name for name, weight in WEIGHTS.items() for _ in range(weight))


@dataclass
class Instance:
    """One client that uses the id, with the last pair that it got."""

    pair: ProducerIdAndEpoch
    version: int


@dataclass
class History:
    told: list[tuple[ProducerIdAndEpoch, bool]] = field(default_factory=list)
    """Ends that were answered NONE: the pair that asked, and the outcome."""
    new_instances: list[ProducerIdAndEpoch] = field(default_factory=list)
    """Pairs given to instances that had none."""
    instances: list[Instance] = field(default_factory=list)


class Life:
    def __init__(self, seed: int, level: int) -> None:
        self.random = Random(seed)
        self.coordinator = Coordinator(level=level)
        self._hold()
        self.history = History()
        self.asked: list[tuple[str, Instance | None, ProducerIdAndEpoch | None, Asked]] = []

    def _hold(self) -> None:
        self.coordinator.log.flushes_by_itself = False
        self.coordinator.markers.holds = True

    # One case for each kind of step.
    def step(self, name: str) -> None:  # noqa: C901
        coordinator = self.coordinator
        instances = self.history.instances
        instance = self.random.choice(instances) if instances else None
        match name:
            case "init":
                self._ask("init", None, coordinator.init())
            case "take over":
                self._ask("take over", None, coordinator.take_over())
            case "switch":
                coordinator.level = self.random.choice([level for level in (0, 1, 2) if level != coordinator.level])
            case "resume" if instance:
                self._ask("resume", instance, coordinator.init(instance.pair))
            case "add" if instance:
                partition = self.random.choice((P0, P1))
                self._ask("add", instance, coordinator.add(instance.pair, partition, version=instance.version))
            case "commit" | "abort" if instance:
                asked = coordinator.end(instance.pair, name == "commit", version=instance.version)
                self._ask(name, instance, asked)
            case "flush":
                coordinator.log.flush()
            case "marker" if coordinator.markers.waiting:
                retry = self.random.random() < 0.2
                coordinator.markers.release(*[ErrorCode.NOT_ENOUGH_REPLICAS] * retry * self._wanted())
            case "wait":
                coordinator.time.advance(50)
            case "timeout":
                coordinator.time.advance(TIMEOUT_MS)
            case "crash":
                self._crash()
        self._hear()

    def _wanted(self) -> int:
        return len(self.coordinator.markers.waiting[0].partitions)

    def _ask(self, name: str, instance: Instance | None, asked: Asked) -> None:
        self.asked.append((name, instance, instance.pair if instance else None, asked))

    def _hear(self) -> None:
        """The answers that have arrived."""
        waiting = self.asked
        self.asked = []
        for name, instance, pair, asked in waiting:
            if not asked.is_answered:
                self.asked.append((name, instance, pair, asked))
            elif asked.error is ErrorCode.NONE:
                self._learn(name, instance, pair, asked.pair)

    def _learn(
        self, name: str, instance: Instance | None, pair: ProducerIdAndEpoch | None, answer: ProducerIdAndEpoch
    ) -> None:
        if instance is None or pair is None:
            self.history.new_instances.append(answer)
            is_second = self.random.random() < self.coordinator.level - 1
            self.history.instances.append(Instance(answer, 2 if is_second else 0))
            return
        if name in ("commit", "abort"):
            self.history.told.append((pair, name == "commit"))
        if name != "add" and instance.pair == pair:
            instance.pair = answer

    def _crash(self) -> None:
        old = self.coordinator
        kept = self.random.randint(old.log.durable_end_offset, old.log.log_end_offset)
        self.asked = []
        self.coordinator = Coordinator(level=old.level, topic=old.crashed(kept), time=old.time, ids=old.ids)
        self._hold()
        self.coordinator.start()

    def finish(self) -> None:
        """All faults stop, all clients fall silent."""
        self.coordinator.log.flushes_by_itself = True
        self.coordinator.markers.holds = False
        for _ in range(3):
            self.coordinator.log.flush()
            while self.coordinator.markers.waiting:
                self.coordinator.markers.release()
            self.coordinator.time.advance(2 * TIMEOUT_MS)
            self._hear()


def values(coordinator: Coordinator) -> list[TransactionMetadata]:
    logged = [from_record(record)[1] for record in coordinator.log.records]
    return [value for value in logged if value is not None]


@settings(max_examples=examples(300), deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from(STEPS), min_size=10, max_size=100),
)
def test_in_any_life_each_transaction_has_one_outcome_and_no_two_instances_share_a_pair(
    seed: int, level: int, steps: list[str]
) -> None:
    life = Life(seed, level)
    for name in ("init", "flush", *steps):
        life.step(name)
    life.finish()
    log = values(life.coordinator)
    check_log(log)
    assert life.coordinator.core.open_count == 0, "something is left open"
    # Under version 2 a producer that timed out keeps the pair of its own late abort; new instances never share.
    assert len(set(life.history.new_instances)) == len(life.history.new_instances)
    check_told(log, life.history.told)


def check_log(log: list[TransactionMetadata]) -> None:
    """Each record follows from the one before, and each outcome that is prepared is completed as it was."""
    previous: TransactionMetadata | None = None
    for value in log:
        check_step(previous, value)
        if value.state in COMPLETED:
            assert previous is not None and previous.state in PREPARED
        previous = value


def check_told(log: list[TransactionMetadata], told: list[tuple[ProducerIdAndEpoch, bool]]) -> None:
    """Require that each end that was answered is in the log."""
    ends = {
        (previous.client, value.state is TransactionState.PREPARE_COMMIT)
        for previous, value in pairwise(log)
        if value.state in PREPARED
    }
    assert ends.issuperset(told)


def test_the_random_lives_do_bring_about_what_they_are_about() -> None:
    """Counted over fixed seeds: ends, takeovers, and crashes and switches in mid-transaction all occur."""
    seen: dict[str, int] = {}
    for seed in range(80):
        random = Random(seed)
        life = Life(seed, 1 + seed % 2)
        for _ in range(60):
            name = random.choice(STEPS)
            if name in ("crash", "switch") and life.coordinator.core.open_count:
                seen[f"{name} while open"] = seen.get(f"{name} while open", 0) + 1
            life.step(name)
        life.finish()
        for value in values(life.coordinator):
            seen[value.state.kafka_name] = seen.get(value.state.kafka_name, 0) + 1
            seen["taken over"] = seen.get("taken over", 0) + value.is_taken_over
        seen["told"] = seen.get("told", 0) + len(life.history.told)
    wanted = ("CompleteCommit", "CompleteAbort", "crash while open", "switch while open", "taken over", "told")
    assert min(seen[name] for name in wanted) >= 10, seen
