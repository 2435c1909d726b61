"""The assignor of streams groups keeps its promises for any members, processes and earlier assignments."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.streams.assignor import AssignedMember, SubtopologySize, assign
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, Tasks, by_subtopology, each_task

Assigned = Mapping[str, Tasks]
Task = tuple[str, int]
TOPOLOGY = [SubtopologySize("0", 4, False), SubtopologySize("1", 4, True)]


def active(assigned: Assigned) -> dict[str, set[Task]]:
    return {member_id: set(each_task(tasks.active)) for member_id, tasks in assigned.items()}


def standby(assigned: Assigned) -> dict[str, set[Task]]:
    return {member_id: set(each_task(tasks.standby)) for member_id, tasks in assigned.items()}


def members(assigned: Assigned, processes: Mapping[str, str] | None = None) -> list[AssignedMember]:
    """Returns the members with their assigned tasks; `processes` has those that share a process with others."""
    return [
        AssignedMember(member_id, (processes or {}).get(member_id, member_id), tasks)
        for member_id, tasks in assigned.items()
    ]


def new(*names: str) -> list[AssignedMember]:
    return [AssignedMember(name, name, NO_TASKS) for name in names]


topologies = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=3).map(
    lambda sizes: [SubtopologySize(str(index), count, is_stateful) for index, (count, is_stateful) in enumerate(sizes)]
)


@st.composite
def groups(draw: st.DrawFn, *, threads: int = 3) -> tuple[list[AssignedMember], list[SubtopologySize]]:
    """Members of a few processes, with what they may have had before; some of it may be gone."""
    topology = draw(topologies)
    counts = draw(st.lists(st.integers(1, threads), min_size=1, max_size=5))
    names = [(f"m{process}{thread}", f"p{process}") for process, count in enumerate(counts) for thread in range(count)]
    had: dict[str, tuple[list[Task], list[Task]]] = {name: ([], []) for name, _ in names}
    for size in (*topology, SubtopologySize("gone", 2, True)):
        for partition in range(size.task_count):
            task = size.subtopology_id, partition
            owner, keeper = (draw(st.sampled_from((None, *had))) for _ in range(2))
            if owner is not None:
                had[owner][0].append(task)
            if keeper is not None and keeper != owner and size.is_stateful:
                had[keeper][1].append(task)
    group = [
        AssignedMember(name, process, Tasks(by_subtopology(had[name][0]), by_subtopology(had[name][1])))
        for name, process in names
    ]
    return draw(st.permutations(group)), topology


Group = tuple[list[AssignedMember], list[SubtopologySize]]


@given(group=groups(), replicas=st.integers(0, 3))
def test_each_task_is_active_once_and_has_the_standbys_that_fit(group: Group, replicas: int) -> None:
    described, topology = group
    assigned = assign(described, topology, replicas)
    process_of = {member.member_id: member.process_id for member in described}
    given_to = Counter(task for tasks in active(assigned).values() for task in tasks)
    everything = {(size.subtopology_id, number) for size in topology for number in range(size.task_count)}
    assert given_to.keys() == everything and set(given_to.values()) == {1}
    kept = Counter(task for tasks in standby(assigned).values() for task in tasks)
    fitting = min(replicas, len(set(process_of.values())) - 1)
    stateful = {size.subtopology_id for size in topology if size.is_stateful}
    assert kept == Counter({task: fitting for task in everything if task[0] in stateful and fitting})


@given(group=groups(), replicas=st.integers(0, 3))
def test_no_process_has_a_task_twice(group: Group, replicas: int) -> None:
    described, topology = group
    assigned = assign(described, topology, replicas)
    has: defaultdict[str, list[Task]] = defaultdict(list)
    for member in described:
        has[member.process_id] += [*active(assigned)[member.member_id], *standby(assigned)[member.member_id]]
    assert all(len(tasks) == len(set(tasks)) for tasks in has.values())


@given(group=groups(), replicas=st.integers(0, 2), data=st.data())
def test_the_order_of_the_members_does_not_matter(group: Group, replicas: int, data: st.DataObject) -> None:
    described, topology = group
    shuffled = data.draw(st.permutations(described))
    assert assign(shuffled, topology, replicas) == assign(described, topology, replicas)


@given(group=groups(threads=1))
def test_active_tasks_are_even_whoever_had_them(group: Group) -> None:
    sizes = [len(tasks) for tasks in active(assign(*group, 0)).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_a_process_has_tasks_in_proportion_to_its_threads(group: Group) -> None:
    described, topology = group
    assigned = active(assign(described, topology, 0))
    threads = Counter(member.process_id for member in described)
    tasks: Counter[str] = Counter()
    for member in described:
        tasks[member.process_id] += len(assigned[member.member_id])
    loads = [tasks[process] / count for process, count in threads.items()]
    assert max(loads) - min(loads) <= 1


@given(topology=topologies, count=st.integers(1, 6), replicas=st.integers(0, 2))
def test_what_was_assigned_stays_where_nothing_changes(
    topology: Sequence[SubtopologySize], count: int, replicas: int
) -> None:
    before = assign(new(*(f"m{number}" for number in range(count))), topology, replicas)
    assert active(assign(members(before), topology, replicas)) == active(before)


@given(topology=topologies, count=st.integers(2, 6))
def test_the_others_keep_their_tasks_when_a_member_leaves(topology: Sequence[SubtopologySize], count: int) -> None:
    before = assign(new(*(f"m{number}" for number in range(count))), topology, 0)
    after = active(assign(members(before)[1:], topology, 0))
    assert all(active(before)[name] <= after[name] for name in after)


@given(topology=topologies, count=st.integers(1, 6))
def test_a_new_member_takes_tasks_and_no_other_moves(topology: Sequence[SubtopologySize], count: int) -> None:
    before = assign(new(*(f"m{number}" for number in range(count))), topology, 0)
    after = active(assign([*members(before), *new("z")], topology, 0))
    assert all(after[name] <= tasks for name, tasks in active(before).items())


@given(topology=topologies, count=st.integers(2, 5))
def test_the_standby_of_a_lost_member_takes_its_tasks(topology: Sequence[SubtopologySize], count: int) -> None:
    assume(all(size.is_stateful for size in topology))
    before = assign(new(*(f"m{number}" for number in range(count))), topology, count - 1)
    lost = active(before)["m0"]
    after = active(assign(members(before)[1:], topology, 0))
    for task in lost:
        (taker,) = (name for name, tasks in after.items() if task in tasks)
        assert task in standby(before)[taker]


def test_a_first_assignment_gives_each_member_the_same_partitions_of_both_subtopologies() -> None:
    """Kafka's: partitions that are joined are where they were read."""
    assigned = active(assign(new("a", "b"), TOPOLOGY, 0))
    assert assigned == {
        "a": {("0", 0), ("0", 2), ("1", 0), ("1", 2)},
        "b": {("0", 1), ("0", 3), ("1", 1), ("1", 3)},
    }


def test_a_process_of_two_threads_has_two_thirds() -> None:
    group = [AssignedMember(name, process, NO_TASKS) for name, process in (("a", "p"), ("b", "p"), ("c", "q"))]
    assigned = active(assign(group, [SubtopologySize("0", 6, False)], 0))
    assert sorted(map(len, assigned.values())) == [2, 2, 2]


def test_without_members_nothing_is_assigned() -> None:
    assert assign([], TOPOLOGY, 1) == {}
