"""The life of a coordinator partition on this node, from the moment this node gains it until it loses it.

Owns: the states and the legal transitions between them, in one table; the error that requests get in each; the
responses of this life that wait to be durable. Does not own: what is replayed and decided (`runtime`, the shard).
Invariants
- A life ends once. A partition that is gained again gets a new life, with a newly replayed shard.
- There is a shard only while the life is ACTIVE.

Shaped by Kafka's CoordinatorRuntime.CoordinatorState, whose CLOSED is RESIGNED here.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.coordinator.log import CoordinatorLog

ShardT = TypeVar("ShardT")


class LifeState(Enum):
    INITIAL = "Initial"
    """The partition is gained; its log is not read yet."""
    LOADING = "Loading"
    ACTIVE = "Active"
    RESIGNED = "Resigned"
    """The partition is lost: another node leads it, or its topic was deleted."""
    FAILED = "Failed"
    """The partition's log cannot be replayed."""


_S = LifeState

VALID_PREVIOUS_STATES: dict[LifeState, frozenset[LifeState]] = {
    _S.INITIAL: frozenset(),
    _S.LOADING: frozenset({_S.INITIAL}),
    _S.ACTIVE: frozenset({_S.LOADING}),
    _S.RESIGNED: frozenset({_S.INITIAL, _S.LOADING, _S.ACTIVE, _S.FAILED}),
    _S.FAILED: frozenset({_S.LOADING}),
}


class IllegalTransition(Exception):
    """A transition that is not in the table: a bug."""


def check_transition(previous: LifeState, target: LifeState) -> None:
    if previous not in VALID_PREVIOUS_STATES[target]:
        raise IllegalTransition(f"{previous.value} to {target.value} is not a legal transition")


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, for docs/."""
    order = list(LifeState)
    lines = ["stateDiagram-v2", f"    [*] --> {_S.INITIAL.value}"]
    for target, sources in VALID_PREVIOUS_STATES.items():
        lines += [f"    {source.value} --> {target.value}" for source in sorted(sources, key=order.index)]
    return "\n".join([*lines, f"    {_S.RESIGNED.value} --> [*]"])


class Life(Generic[ShardT]):
    __slots__ = ("epoch", "log", "name", "partition", "problem", "shard", "state", "waiting")
    __deletable__ = ("shard",)
    """Needed by mypyc, which otherwise compiles no `del` of an attribute."""

    def __init__(self, topic: str, partition: int, epoch: int) -> None:
        self.name = f"{topic}-{partition}"
        self.partition = partition
        self.epoch = epoch
        """The leader epoch in which the partition was gained."""
        self.state = LifeState.INITIAL
        self.log: "CoordinatorLog"
        """The partition's log, set from LOADING on."""
        self.shard: ShardT
        """The shard, set while ACTIVE."""
        self.problem = ""
        """The reason why the life is FAILED."""
        self.waiting: dict[Completion[Any], None] = {}
        """The responses of this life that wait until they are durable."""

    def move_to(self, state: LifeState) -> None:
        check_transition(self.state, state)
        self.state = state

    @property
    def is_loading(self) -> bool:
        return self.state is LifeState.LOADING

    def refusal(self) -> KafkaError:
        """Return the error for requests while the life is not ACTIVE."""
        match self.state:
            case LifeState.INITIAL | LifeState.LOADING:
                return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.name} is being replayed.")
            case LifeState.FAILED:
                return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.problem)
            case _:
                return KafkaError(ErrorCode.NOT_COORDINATOR, f"this node is not the coordinator of {self.name}.")

    def fail_waiting(self) -> None:
        """Fail the waiters, so that they look up the coordinator again: what they asked for may be durable or not."""
        waiting, self.waiting = self.waiting, {}
        for released in list(waiting):  # each leaves the dict when it ends
            released.fail(self.refusal())
