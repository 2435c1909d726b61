"""Requests and responses of share consumers, and what must hold of them (KIP-932).

Owns: the account of each share fetch and acknowledgement as it arrived at the broker and was answered, whether the
answer reached the client or not, and the rules. Nothing of the broker's own code judges: a record is known by its
partition and offset, a time by the turn of the simulation.

An acquisition happens between the arrival of its fetch and its answer, a fetch may wait; so a rule speaks only where
every order that is possible breaks it.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.history.auditor import HistoryError
from tests.simulation.stage import Turn

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_ENDS = (ACCEPT, REJECT)
_SHOWN = 5

Place = tuple[int, int]
"""A partition and an offset."""
NEVER: Turn = (2**62, 0)


@dataclass
class Acquisition:
    """One range of one answer to a ShareFetch."""

    member_id: str
    partition: int
    first_offset: int
    last_offset: int
    delivery_count: int
    arrived: Turn
    answered: Turn
    life: int
    """The number of the start of the broker."""
    stable_offset: int
    """The last stable offset when it was answered."""


@dataclass
class Acknowledged:
    """One range of acknowledgements, all of one type, in a ShareFetch or a ShareAcknowledge."""

    member_id: str
    partition: int
    first_offset: int
    last_offset: int
    kind: int
    arrived: Turn
    answered: Turn = NEVER
    error: int | None = None
    """None: never answered, it may have been carried out or not."""
    start_offset: int = 0
    """The share-partition's start offset when the request arrived. Acknowledging a record before it has no effect and
    is no error, as in Kafka; S4 checks that no start offset passes a record that has not ended.
    """

    @property
    def is_taken(self) -> bool:
        return self.error == 0


@dataclass
class ShareHistory:
    lock_ms: int
    session_ms: int
    delivery_limit: int
    is_committed: bool
    acquisitions: list[Acquisition] = field(default_factory=list)
    acknowledgements: list[Acknowledged] = field(default_factory=list)
    closes: dict[str, list[Turn]] = field(default_factory=lambda: defaultdict(list))
    """When a member asked to end its session or to leave the group."""
    heartbeats: dict[str, list[Turn]] = field(default_factory=lambda: defaultdict(list))
    restarts: list[Turn] = field(default_factory=list)
    records: set[Place] = field(default_factory=set)
    """The places in the logs that hold data, not control records, at the end."""
    aborted: set[Place] = field(default_factory=set)
    starts: dict[int, int] = field(default_factory=dict)
    """The log start offset of each partition at the end."""


class _Facts:
    def __init__(self, history: ShareHistory) -> None:
        self.history = history
        self.acquired: dict[Place, list[Acquisition]] = defaultdict(list)
        self.acknowledged: dict[Place, list[Acknowledged]] = defaultdict(list)
        for acquisition in history.acquisitions:
            for offset in range(acquisition.first_offset, acquisition.last_offset + 1):
                self.acquired[acquisition.partition, offset].append(acquisition)
        for each in history.acknowledgements:
            for offset in range(max(each.first_offset, each.start_offset), each.last_offset + 1):
                self.acknowledged[each.partition, offset].append(each)

    def may_be_free(self, place: Place, held: Acquisition, until: Turn) -> bool:
        """Whether the lock of an acquisition may have ended before that turn."""
        history = self.history
        mine = [each for each in self.acknowledged[place] if each.member_id == held.member_id]
        since_ms = held.arrived[0]
        for each in mine:
            if each.kind == RENEW and each.is_taken and held.arrived <= each.arrived <= until:
                since_ms = max(since_ms, each.arrived[0])
        if until[0] >= since_ms + history.lock_ms:
            return True
        if any(each.kind != RENEW and held.arrived <= each.arrived <= until for each in mine):
            return True
        closes = history.closes.get(held.member_id, [])
        if any(held.arrived <= closed <= until for closed in [*closes, *history.restarts]):
            return True
        return self._is_silent(held.member_id, held.arrived, until)

    def _is_silent(self, member_id: str, since: Turn, until: Turn) -> bool:
        """Whether the group coordinator may have taken the member for dead meanwhile."""
        heartbeats = self.history.heartbeats.get(member_id, [])
        place = max(0, bisect_left(heartbeats, since) - 1)
        heard = [*heartbeats[place:], NEVER]
        return any(before[0] + self.history.session_ms <= min(after[0], until[0]) for before, after in pairwise(heard))


def s1_a_record_is_accepted_at_most_once(facts: _Facts) -> Iterator[str]:
    for place, all_of_it in facts.acknowledged.items():
        taken = [each for each in all_of_it if each.kind == ACCEPT and each.is_taken]
        if len(taken) > 1:
            yield f"{place} by {[each.member_id for each in taken]}"


def s2_no_record_is_with_two_members_within_its_lock(facts: _Facts) -> Iterator[str]:
    for place, acquisitions in facts.acquired.items():
        for index, one in enumerate(acquisitions):
            for other in acquisitions[index + 1 :]:
                first_one = one.arrived <= other.answered and facts.may_be_free(place, one, other.answered)
                first_other = other.arrived <= one.answered and facts.may_be_free(place, other, one.answered)
                if not first_one and not first_other:
                    yield f"{place}: {one}, {other}"


def s3_what_is_ended_is_never_handed_out_again(facts: _Facts) -> Iterator[str]:
    for place, all_of_it in facts.acknowledged.items():
        for each in all_of_it:
            if each.kind in _ENDS and each.is_taken:
                later = [acquired for acquired in facts.acquired[place] if acquired.arrived > each.answered]
                if later:
                    yield f"{place}: {each}, then {later[0]}"


def s4_nothing_is_lost_while_the_limit_is_not_reached(facts: _Facts) -> Iterator[str]:
    history = facts.history
    for place in sorted(history.records):
        if place[1] < history.starts[place[0]] or (history.is_committed and place in history.aborted):
            continue
        may_have_ended = any(each.kind in _ENDS and each.error in (0, None) for each in facts.acknowledged[place])
        if not may_have_ended and len(facts.acquired[place]) < history.delivery_limit:
            yield f"{place} was handed out {len(facts.acquired[place])} times, and never ended"


def s5_nothing_aborted_or_open_is_handed_out(facts: _Facts) -> Iterator[str]:
    if facts.history.is_committed:
        for place, acquisitions in facts.acquired.items():
            if place in facts.history.aborted:
                yield f"{place} is aborted: {acquisitions[0]}"
            for each in acquisitions:
                if each.last_offset >= each.stable_offset:
                    yield f"{place} is not decided: {each}"


def s6_delivery_counts_count_deliveries(facts: _Facts) -> Iterator[str]:
    for place, acquisitions in facts.acquired.items():
        for number, each in enumerate(acquisitions, 1):
            at_most = min(number + sum(other.answered >= each.arrived for other in acquisitions[number:]), 2**15)
            if not 1 <= each.delivery_count <= min(at_most, facts.history.delivery_limit):
                yield f"{place}, delivery {number}: {each}"
            # A start knows only of deliveries that an acknowledgement or the end of a lock has written down.
            for before in acquisitions[: number - 1]:
                is_later = before.life == each.life and before.answered < each.arrived
                if is_later and before.delivery_count >= each.delivery_count:
                    yield f"{place}: {before}, then {each}"


def s7_nobody_ends_what_is_not_his(facts: _Facts) -> Iterator[str]:
    """An acknowledgement is taken from the member that holds the record, within its lock."""
    history = facts.history
    for place, all_of_it in facts.acknowledged.items():
        for each in all_of_it:
            if not each.is_taken or each.kind == GAP:
                continue
            latest_ms = max(
                [held.answered[0] for held in _held_by(facts.acquired[place], each)]
                + [
                    other.answered[0]
                    for other in all_of_it
                    if other.kind == RENEW and other.member_id == each.member_id and other.arrived <= each.arrived
                ],
                default=None,
            )
            if latest_ms is None or each.arrived[0] > latest_ms + history.lock_ms:
                yield f"{place}: {each}"


def _held_by(acquisitions: list[Acquisition], each: Acknowledged) -> list[Acquisition]:
    return [held for held in acquisitions if held.member_id == each.member_id and held.arrived <= each.answered]


RULES = (
    s1_a_record_is_accepted_at_most_once,
    s2_no_record_is_with_two_members_within_its_lock,
    s3_what_is_ended_is_never_handed_out_again,
    s4_nothing_is_lost_while_the_limit_is_not_reached,
    s5_nothing_aborted_or_open_is_handed_out,
    s6_delivery_counts_count_deliveries,
    s7_nobody_ends_what_is_not_his,
)


def audit(history: ShareHistory) -> None:
    """Raises HistoryError for the first rule that is broken."""
    facts = _Facts(history)
    for rule in RULES:
        against = [text for text, _ in zip(rule(facts), range(_SHOWN), strict=False)]
        if against:
            number, _, sentence = rule.__name__.partition("_")
            raise HistoryError(f"{number.upper()}, {sentence.replace('_', ' ')}: {'; '.join(against)}"[:2_000])


def tally(history: ShareHistory) -> "Counter[str]":
    counts: Counter[str] = Counter(acquisitions=len(history.acquisitions), records=len(history.records))
    names = {GAP: "gaps", ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected", RENEW: "renewed"}
    for each in history.acknowledgements:
        if each.is_taken:
            counts[names[each.kind]] += each.last_offset - each.first_offset + 1
        elif each.error is None:
            counts["unanswered"] += 1
        else:
            counts["refused"] += 1
    again = Counter(
        (each.partition, offset)
        for each in history.acquisitions
        for offset in range(each.first_offset, each.last_offset + 1)
    )
    counts["redelivered"] = sum(count - 1 for count in again.values())
    counts["aborted"] = len(history.aborted)
    return counts
