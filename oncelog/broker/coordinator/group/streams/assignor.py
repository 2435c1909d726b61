"""The assignor `sticky`: tasks stay where their state is, and members have equally many.

Owns: the target assignment of a streams group, from the last one. Does not own: members and topologies.
Invariants
- A pure function of its input, independent of the order of the members.
- Each task is active exactly once. It has as many standby members as wanted, or one in each other process if there are
  fewer; none of them in a process that has the task already.

Kafka's StickyTaskAssignor (KIP-1071), in its order: active tasks to the member that had them, then to one that had them
as a standby, then to the process with the least load; then the standby tasks likewise. A member takes back what it had
up to its share of all tasks. Load is tasks per member of a process: a process with more threads is given more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter, itemgetter

from oncelog.broker.coordinator.group.streams.tasks import TaskIds, Tasks, by_subtopology

_Task = tuple[int, str]
"""Partition and subtopology: in this order partitions of several subtopologies that are read together are together."""
_by_subtopology = itemgetter(1, 0)


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member, and its last target."""

    member_id: str
    process_id: str
    previous: Tasks


@dataclass(frozen=True, slots=True)
class SubtopologySize:
    subtopology_id: str
    task_count: int
    is_stateful: bool
    """Whether its tasks have state, for which there can be standby tasks."""


def assign(
    members: Iterable[AssignedMember], subtopologies: Sequence[SubtopologySize], standby_count: int
) -> dict[str, Tasks]:
    """Return the tasks of each member; `standby_count` is how many standby members a task should have."""
    assignment = _Assignment(sorted(members, key=attrgetter("member_id")), subtopologies, standby_count)
    if assignment.members:
        assignment.assign_active(_tasks(subtopologies))
        if standby_count > 0:
            assignment.assign_standby(_tasks([size for size in subtopologies if size.is_stateful]))
    return {member.member_id: Tasks(_ids(member.active), _ids(member.standby)) for member in assignment.members}


def _tasks(subtopologies: Iterable[SubtopologySize]) -> list[_Task]:
    return [(partition, size.subtopology_id) for size in subtopologies for partition in range(size.task_count)]


def _previous(tasks: TaskIds) -> list[_Task]:
    return [(partition, subtopology_id) for subtopology_id, partitions in tasks.items() for partition in partitions]


def _ids(tasks: Iterable[_Task]) -> TaskIds:
    return by_subtopology([(subtopology_id, partition) for partition, subtopology_id in tasks])


class _Process:
    """Several members with one state directory: none of them takes a task that another one has."""

    __slots__ = ("index", "load", "members", "task_count", "tasks")

    def __init__(self, index: int) -> None:
        self.index = index
        self.members: list[_Member] = []
        self.tasks: set[_Task] = set()
        self.task_count = 0
        self.load = 0.0

    @property
    def least_loaded(self) -> "_Member":
        return self.members[0] if len(self.members) == 1 else min(self.members, key=_task_count)


class _Member:
    __slots__ = ("active", "member_id", "process", "standby", "task_count")

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: list[_Task] = []
        self.standby: list[_Task] = []
        self.task_count = 0

    def add(self, task: _Task, *, is_active: bool) -> int:
        """Take the task; return how many it has now."""
        (self.active if is_active else self.standby).append(task)
        process = self.process
        process.tasks.add(task)
        process.task_count += 1
        process.load = process.task_count / len(process.members)
        self.task_count += 1
        return self.task_count


_task_count = attrgetter("task_count")


class _Share:
    """How many tasks a member may take back, given those that have as many already."""

    __slots__ = ("_member_count", "_task_count", "limit")

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.limit = self._compute()

    def _compute(self) -> int:
        return -(-self._task_count // self._member_count) if self._member_count else 0

    def use_up(self) -> None:
        """A member has as many now as it may have."""
        self._member_count -= 1
        self._task_count -= self.limit
        self.limit = self._compute()


class _Assignment:
    def __init__(
        self, members: Sequence[AssignedMember], subtopologies: Sequence[SubtopologySize], standby_count: int
    ) -> None:
        self._standby_count = standby_count
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[_Task, _Member] = {}
        self._had_standby: dict[_Task, list[_Member]] = {}
        self.members = [self._member(member) for member in members]
        active_count = sum(size.task_count for size in subtopologies)
        stateful_count = sum(size.task_count for size in subtopologies if size.is_stateful)
        self._active_share = _Share(active_count, len(self.members))
        self._share = _Share(active_count + stateful_count * standby_count, len(self.members))

    def _member(self, described: AssignedMember) -> _Member:
        process = self._processes.setdefault(described.process_id, _Process(len(self._processes)))
        member = _Member(described.member_id, process)
        process.members.append(member)
        self._had_active.update(dict.fromkeys(_previous(described.previous.active), member))
        for task in _previous(described.previous.standby):
            self._had_standby.setdefault(task, []).append(member)
        return member

    # --- active tasks -------------------------------------------------------------------------------------------------

    def assign_active(self, tasks: Sequence[_Task]) -> None:
        had_active, had_standby = self._had_active, self._had_standby
        # The last assignment probably put the same partitions of several subtopologies together.
        left = [task for task in sorted(tasks) if task not in had_active or not self._give_to(had_active[task], task)]
        left = [task for task in left if task not in had_standby or not self._promote(task)]
        by_load = self._by_load()
        for task in sorted(left, key=_by_subtopology):
            _, _, process = heappop(by_load)
            self._add(process.least_loaded, task, is_active=True)
            heappush(by_load, (process.load, process.index, process))

    def _promote(self, task: _Task) -> bool:
        member = _least_loaded(self._had_standby[task])
        return member is not None and self._give_to(member, task)

    def _give_to(self, member: _Member, task: _Task) -> bool:
        if member.task_count >= self._active_share.limit:
            return False
        self._add(member, task, is_active=True)
        return True

    def _add(self, member: _Member, task: _Task, *, is_active: bool) -> None:
        task_count = member.add(task, is_active=is_active)
        if is_active and task_count == self._active_share.limit:
            self._active_share.use_up()
        if task_count == self._share.limit:
            self._share.use_up()

    # --- standby tasks ------------------------------------------------------------------------------------------------

    def assign_standby(self, tasks: Sequence[_Task]) -> None:
        left: list[tuple[_Task, int]] = []
        for task in sorted(tasks, reverse=True):
            found = 0
            while found < self._standby_count and self._keep_standby(task):
                found += 1
            if found < self._standby_count:
                left.append((task, self._standby_count - found))
        by_load = self._by_load()
        for task, count in sorted(left, key=lambda entry: _by_subtopology(entry[0]), reverse=True):
            for _ in range(count):
                if not self._place_standby(by_load, task):
                    break  # every process has it

    def _keep_standby(self, task: _Task) -> bool:
        """Give the task to the member that had it as active, or else to one that had it as a standby."""
        had = self._had_active.get(task)
        member = had if had is not None and self._has_room(had, task) else self._former_standby(task)
        if member is None:
            return False
        self._add(member, task, is_active=False)
        return True

    def _former_standby(self, task: _Task) -> _Member | None:
        return _least_loaded([member for member in self._had_standby.get(task, ()) if self._has_room(member, task)])

    def _has_room(self, member: _Member, task: _Task) -> bool:
        return task not in member.process.tasks and member.task_count < self._share.limit

    def _place_standby(self, by_load: "list[tuple[float, int, _Process]]", task: _Task) -> bool:
        """Give the task to the process with the least load that does not have it."""
        passed = []
        found = False
        while by_load and not found:
            entry = heappop(by_load)
            process = entry[2]
            if task in process.tasks:
                passed.append(entry)
                continue
            found = True
            self._add(process.least_loaded, task, is_active=False)
            passed.append((process.load, process.index, process))
        for entry in passed:
            heappush(by_load, entry)
        return found

    def _by_load(self) -> "list[tuple[float, int, _Process]]":
        by_load = [(process.load, process.index, process) for process in self._processes.values()]
        heapify(by_load)
        return by_load


def _least_loaded(members: Sequence[_Member]) -> _Member | None:
    return min(members, key=lambda member: (member.process.load, member.task_count), default=None)
