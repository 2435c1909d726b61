"""Requests and responses of members of a streams group, and what must hold of them (KIP-1071).

Owns: the account of each heartbeat, commit and end of a transaction as it arrived at the broker and was answered,
whether the answer reached the client or not, and the rules. Nothing of the broker's own code judges: a task is known by
its subtopology and number, a time by the turn of the simulation.

What a request does happens between its arrival and its end, so a rule speaks only where every order that is possible
breaks it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.history.auditor import HistoryError
from tests.simulation.stage import Turn

_SHOWN = 5
NEVER: Turn = (2**62, 0)
_BEGINNING: Turn = (-1, 0)
NOTHING_COMMITTED = -1
Task = tuple[str, int]
"""A subtopology and a partition."""
Identity = tuple[int, int]


@dataclass
class Beat:
    member_id: str
    epoch: int
    reported: frozenset[Task] | None
    """The active tasks that it has, if it says so."""
    standby: frozenset[Task] | None
    arrived: Turn
    ended: Turn = NEVER
    """When it was answered, or could not be any more."""
    error: int | None = None
    """None: never answered, it may have been carried out or not."""
    told_epoch: int = -1
    told: frozenset[Task] | None = None
    """The active tasks that it is to have."""
    told_standby: frozenset[Task] | None = None
    is_stale: bool = False
    """Its topology is older than that of the group."""

    @property
    def is_taken(self) -> bool:
        return self.error == 0

    def may_release(self, task: Task) -> bool:
        return self.epoch <= 0 or (self.reported is not None and task not in self.reported)

    def has_given_up_all_but(self, asked: "Beat") -> bool:
        """Whether it says that it has nothing but what that answer has left it."""
        pairs = (self.reported, asked.told), (self.standby, asked.told_standby)
        return all(has is not None and told is not None and has <= told for has, told in pairs)


@dataclass
class Commit:
    member_id: str
    epoch: int
    partition: int
    offset: int
    transaction: Identity | None
    arrived: Turn
    ended: Turn = NEVER
    error: int | None = None


@dataclass
class Ending:
    """An EndTxn. Under transaction.version 2 each transaction has an identity of its own."""

    transaction: Identity
    is_commit: bool
    arrived: Turn
    ended: Turn = NEVER
    error: int | None = None


@dataclass
class Deletion:
    """A DeleteGroups: if it says that there is no such group, there is none."""

    arrived: Turn
    ended: Turn = NEVER
    error: int | None = None

    @property
    def is_sure(self) -> bool:
        return self.error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)

    @property
    def is_possible(self) -> bool:
        return self.error is None or self.is_sure


@dataclass
class Look:
    """A committed offset of a partition, as a client saw it that waits for open transactions."""

    partition: int
    offset: int
    arrived: Turn
    ended: Turn


@dataclass
class Made:
    """An internal topic that the broker has made."""

    topic: str
    partition_count: int
    wanted: frozenset[int]
    """The counts that its sources have asked for of late."""


@dataclass
class StreamsHistory:
    session_ms: int
    rebalance_ms: int
    read_by: str
    """The subtopology whose input is committed."""
    beats: list[Beat] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    replays: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)
    """The group before a stop and after the start."""
    starts: list[tuple[Turn, int, Mapping[str, int]]] = field(default_factory=list)
    """The epochs of the group and of its members after each start."""


class _Facts:
    def __init__(self, history: StreamsHistory) -> None:
        self.history = history
        self.beats: dict[str, list[Beat]] = defaultdict(list)
        self.tellings: dict[Task, dict[str, list[Beat]]] = defaultdict(lambda: defaultdict(list))
        """The heartbeats that assigned a task to a member, by task and member id."""
        for beat in history.beats:
            self.beats[beat.member_id].append(beat)
            if beat.is_taken:
                for task in beat.told or ():
                    self.tellings[task][beat.member_id].append(beat)
        self.endings: dict[Identity, list[Ending]] = defaultdict(list)
        for ending in history.endings:
            self.endings[ending.transaction].append(ending)

    def may_be_released(self, task: Task, held: Beat, until: Turn) -> bool:
        """Whether the member may have lost the task before that turn."""
        history = self.history
        since = [beat for beat in self.beats[held.member_id] if held.arrived <= beat.arrived <= until]
        if any(beat is not held and beat.may_release(task) for beat in since):
            return True
        # A heartbeat that is refused is no sign of life, as in Kafka.
        heard_ms = [*(beat.arrived[0] for beat in since if beat.error in (0, None)), until[0]]
        if any(later - before >= history.session_ms for before, later in pairwise(heard_ms)):
            return True
        return any(self._may_be_late(beat, until) for beat in self.beats[held.member_id] if beat.arrived <= until)

    def _may_be_late(self, asked: Beat, until: Turn) -> bool:
        """Whether the member may have been removed since it did not give up in time what this answer took from it."""
        end_ms = asked.arrived[0] + self.history.rebalance_ms
        if until[0] < end_ms or asked.error not in (0, None):
            return False
        if asked.error is None:
            return True
        if asked.told is None:
            return False
        return not any(
            beat.has_given_up_all_but(asked)
            for beat in self.beats[asked.member_id]
            if asked.arrived <= beat.arrived and beat.arrived[0] <= end_ms
        )

    def is_effective(self, commit: Commit, before: Turn) -> bool:
        """Whether it certainly was, before that turn."""
        if commit.error != 0:
            return False
        if commit.transaction is None:
            return commit.ended < before
        return any(each.is_commit and each.error == 0 and each.ended < before for each in self._ends(commit))

    def may_be_effective(self, commit: Commit, before: Turn) -> bool:
        if commit.error not in (0, None) or commit.arrived > before:
            return False
        if commit.transaction is None:
            return True
        return any(each.is_commit and each.error in (0, None) and each.arrived <= before for each in self._ends(commit))

    def _ends(self, commit: Commit) -> list[Ending]:
        return self.endings[commit.transaction] if commit.transaction is not None else []


def t1_no_task_is_active_with_two_members(facts: _Facts) -> Iterator[str]:
    for task, by_member in facts.tellings.items():
        for beat in (beat for beats in by_member.values() for beat in beats):
            for member_id, beats in by_member.items():
                before = [held for held in beats if held.ended < beat.arrived]
                if member_id != beat.member_id and before:
                    held = before[-1]
                    if not facts.may_be_released(task, held, beat.ended):
                        yield f"{task}: {held}, then {beat}"


def t2_no_epoch_goes_back(facts: _Facts) -> Iterator[str]:
    for beats in facts.beats.values():
        taken = [beat for beat in beats if beat.is_taken and beat.told_epoch >= 0]
        for before, after in pairwise(taken):
            if before.ended < after.arrived and after.told_epoch < before.told_epoch:
                yield f"{before}, then {after}"


def t3_what_was_given_to_another_is_not_committed(facts: _Facts) -> Iterator[str]:
    """A commit of a task is refused once the task was assigned to another member."""
    for commit in facts.history.commits:
        if commit.error != 0:
            continue
        by_member = facts.tellings[facts.history.read_by, commit.partition]
        others = [
            beat
            for member_id, beats in by_member.items()
            for beat in beats
            if member_id != commit.member_id and beat.ended < commit.arrived
        ]
        if others:
            latest = max(others, key=lambda beat: beat.arrived)
            again = [
                beat
                for beat in facts.beats[commit.member_id]
                if beat.ended > latest.arrived and (beat.error is None or beat in by_member[commit.member_id])
            ]
            if not again:
                yield f"{latest}, then {commit}"


def t4_what_is_committed_is_the_last_commit(facts: _Facts) -> Iterator[str]:
    """The offset is that of a commit that no other certainly followed, nor the end of the group; never of one refused
    or aborted."""
    of_partition: dict[int, list[Commit]] = defaultdict(list)
    for commit in facts.history.commits:
        of_partition[commit.partition].append(commit)
    for look in facts.history.looks:
        commits = of_partition[look.partition]
        sure = [commit for commit in commits if facts.is_effective(commit, look.arrived)]
        deletions = [each for each in facts.history.deletions if each.is_possible and each.arrived <= look.ended]
        gone = [each for each in deletions if each.is_sure and each.ended < look.arrived]
        latest = max([_BEGINNING, *(each.arrived for each in sure), *(each.arrived for each in gone)])
        if look.offset == NOTHING_COMMITTED:
            is_possible = latest == _BEGINNING or any(each.ended >= latest for each in deletions)
        else:
            is_possible = any(
                commit.offset == look.offset and commit.ended >= latest and facts.may_be_effective(commit, look.ended)
                for commit in commits
            )
        if not is_possible:
            said = [each for each in commits if each.offset == look.offset]
            yield f"{look}, of {said}, after {sure[-1:]}, {deletions}"


def t5_internal_topics_are_as_large_as_their_sources_want(facts: _Facts) -> Iterator[str]:
    for made in facts.history.made:
        if made.partition_count not in made.wanted:
            yield str(made)


def t6_a_start_gives_the_group_that_was(facts: _Facts) -> Iterator[str]:
    for before, after in facts.history.replays:
        if before != after:
            changed = {name for name in before if before[name] != after.get(name)}
            yield f"{[(name, before[name], after.get(name)) for name in sorted(changed)]}"


def t7_a_start_forgets_no_epoch(facts: _Facts) -> Iterator[str]:
    for started, epoch, of_members in facts.history.starts:
        since = max(
            (each.arrived for each in facts.history.deletions if each.is_possible and each.arrived < started),
            default=_BEGINNING,
        )
        for beat in facts.history.beats:
            if beat.is_taken and since < beat.arrived and beat.ended < started:
                known = min(epoch, of_members.get(beat.member_id, epoch))
                if beat.told_epoch > known:
                    yield f"{known} at {started} after {beat}"


def t8_a_member_that_has_left_commits_nothing(facts: _Facts) -> Iterator[str]:
    for commit in facts.history.commits:
        if commit.error == 0:
            beats = [beat for beat in facts.beats[commit.member_id] if beat.arrived < commit.ended]
            joins = [beat for beat in beats if beat.epoch == 0]
            left = [beat for beat in beats if beat.epoch < 0 and beat.is_taken and beat.ended < commit.arrived]
            if left and not any(beat.ended > left[-1].arrived for beat in joins):
                yield f"{left[-1]}, then {commit}"


RULES = (
    t1_no_task_is_active_with_two_members,
    t2_no_epoch_goes_back,
    t3_what_was_given_to_another_is_not_committed,
    t4_what_is_committed_is_the_last_commit,
    t5_internal_topics_are_as_large_as_their_sources_want,
    t6_a_start_gives_the_group_that_was,
    t7_a_start_forgets_no_epoch,
    t8_a_member_that_has_left_commits_nothing,
)


def audit(history: StreamsHistory) -> None:
    """Raises HistoryError for the first rule that is broken."""
    facts = _Facts(history)
    for rule in RULES:
        against = [text for text, _ in zip(rule(facts), range(_SHOWN), strict=False)]
        if against:
            number, _, sentence = rule.__name__.partition("_")
            raise HistoryError(f"{number.upper()}, {sentence.replace('_', ' ')}: {'; '.join(against)}"[:4_000])


@dataclass(frozen=True)
class Holding:
    """The tasks that a member believes it has in the end."""

    member_id: str
    process_id: str
    active: frozenset[Task]
    standby: frozenset[Task]


def unsettled(holdings: list[Holding], task_counts: Mapping[str, int], stateful: set[str], standby_count: int) -> str:
    """Describe the tasks that are missing or superfluous once every member is quiet; empty if there are none."""
    wanted = {(name, number) for name, task_count in task_counts.items() for number in range(task_count)}
    active = Counter(task for each in holdings for task in each.active)
    if active != Counter(wanted):
        return f"active are {sorted(active.items())}, and not {sorted(wanted)}"
    standby = Counter(task for each in holdings for task in each.standby)
    process_ids = {each.process_id for each in holdings}
    copies = min(standby_count, len(process_ids) - 1)
    if standby != Counter({task: copies for task in wanted if task[0] in stateful and copies}):
        return f"standby are {sorted(standby.items())}, each {copies} times"
    inside = Counter((each.process_id, task) for each in holdings for task in each.active | each.standby)
    twice = [place for place, number in inside.items() if number > 1]
    return f"twice in a process are {sorted(twice)}" if twice else ""


def tally(history: StreamsHistory) -> "Counter[str]":
    counts: Counter[str] = Counter(looks=len(history.looks), made_topics=len(history.made))
    for beat in history.beats:
        if beat.error is None:
            counts["unanswered"] += 1
        elif beat.error == ErrorCode.INVALID_REQUEST:
            counts["refused_topologies"] += 1
        elif beat.error:
            counts["fenced"] += 1
        elif beat.told is not None:
            counts["assignments"] += 1
    for commit in history.commits:
        kind = "plain" if commit.transaction is None else "transactional"
        if commit.error is not None:
            counts[f"{kind}_commits" if commit.error == 0 else f"refused_{kind}_commits"] += 1
    counts["commits"] = sum(each.is_commit and each.error == 0 for each in history.endings)
    counts["aborts"] = sum(not each.is_commit and each.error == 0 for each in history.endings)
    counts["deletions"] = sum(each.is_sure for each in history.deletions)
    counts["stale_topologies"] = sum(beat.is_stale for beat in history.beats)
    counts["replays"] = len(history.replays)
    return counts
