"""Tasks, as values: partition n of a subtopology, in the role of an active or a standby task.

Owns: the shapes of what a member is to have and has. Does not own: who has what (`group`).
Invariants: values are immutable; no subtopology has an empty set of partitions.

KIPs: 1071 (streams groups), 1251 (an active task keeps the epoch at which it was assigned).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

TaskIds = Mapping[str, frozenset[int]]
"""Partitions by subtopology."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""The partitions of each subtopology, each with the epoch of the target assignment that gave it to the member."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks that a member is to have, or reports; Kafka's TasksTuple. No assignor gives warm-up tasks yet."""

    active: TaskIds = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """The tasks that the coordinator gave a member, active ones with epochs; Kafka's TasksTupleWithEpochs."""

    active: TaskEpochs = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_any(self, tasks: Tasks) -> bool:
        """Whether one of these tasks is here, in the same role."""
        pairs = ((self.active, tasks.active), (self.standby, tasks.standby), (self.warmup, tasks.warmup))
        return any(_overlap(mine, theirs) for mine, theirs in pairs)

    def has_all(self, tasks: Tasks) -> bool:
        """Whether all of these tasks are here, in the same role."""
        pairs = ((self.active, tasks.active), (self.standby, tasks.standby), (self.warmup, tasks.warmup))
        return all(_contains(mine, theirs) for mine, theirs in pairs)

    def assigned_in(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch in which an active task was assigned; None if it is not here."""
        return self.active.get(subtopology_id, {}).get(partition)


NO_TASKS = Tasks()
NOTHING_OWNED = OwnedTasks()


def _overlap(mine: Mapping[str, Collection[int]], theirs: TaskIds) -> bool:
    return any(partition in mine.get(name, ()) for name, partitions in theirs.items() for partition in partitions)


def _contains(mine: Mapping[str, Collection[int]], theirs: TaskIds) -> bool:
    return all(
        name in mine and partition in mine[name] for name, partitions in theirs.items() for partition in partitions
    )


def by_subtopology(tasks: Iterable[tuple[str, int]]) -> TaskIds:
    """Return tasks by their subtopology."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for subtopology_id, partition in tasks:
        found[subtopology_id].add(partition)
    return {subtopology_id: frozenset(found[subtopology_id]) for subtopology_id in sorted(found)}


def without_empty(tasks: TaskIds) -> TaskIds:
    """Return tasks without the subtopologies that are named for none of their partitions."""
    return {subtopology_id: partitions for subtopology_id, partitions in tasks.items() if partitions}


def each_task(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    """Return tasks one by one."""
    return [(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions]


_NONE: frozenset[int] = frozenset()
IsHeld = Callable[[str, int], bool]


def split(mine: TaskIds, target: TaskIds, is_held: IsHeld) -> tuple[TaskIds, TaskIds, TaskIds, bool]:
    """Return the tasks to keep, to revoke and to take now, and whether some are still held elsewhere."""
    kept: dict[str, frozenset[int]] = {}
    lost: dict[str, frozenset[int]] = {}
    taken: dict[str, frozenset[int]] = {}
    waits = False
    for name in sorted({*mine, *target}):
        has, wanted = mine.get(name, _NONE), target.get(name, _NONE)
        new = wanted - has
        free = frozenset([partition for partition in new if not is_held(name, partition)])
        waits |= len(free) < len(new)
        for tasks, partitions in ((kept, has & wanted), (lost, has - wanted), (taken, free)):
            if partitions:
                tasks[name] = partitions
    return kept, lost, taken, waits
