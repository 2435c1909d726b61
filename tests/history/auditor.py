"""Judges a history: each invariant is one function, named by its number, that yields what contradicts it.

The auditor is itself tested: `anomalies.py` plants each mistake in good histories, and the invariant must find it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tests.history import coordinator_rules, crash_rules, isolation_rules, log_rules, offset_rules
from tests.history.events import History, Outcome
from tests.history.facts import Facts

Rule = Callable[[Facts], Iterator[str]]
_SHOWN = 3

RULES: tuple[Rule, ...] = (
    log_rules.i1_an_offset_has_one_value_for_ever,
    log_rules.i2_what_is_read_was_sent_to_that_partition,
    log_rules.i3_a_value_is_there_once,
    log_rules.i4_nothing_that_was_acknowledged_is_lost,
    log_rules.i5_a_session_keeps_its_order,
    log_rules.i6_bounds_cover_what_was_acknowledged_and_never_go_back,
    isolation_rules.i7_no_aborted_value_is_read,
    isolation_rules.i8_nothing_is_read_before_its_commit_was_asked,
    isolation_rules.i9_a_transaction_is_there_whole_or_not_at_all,
    isolation_rules.i10_no_cycle_of_reads,
    isolation_rules.i11_readers_go_on_and_skip_nothing,
    offset_rules.i12_offsets_are_visible_if_their_transaction_is_committed,
    offset_rules.i13_outputs_are_the_inputs_below_the_committed_offset,
    offset_rules.i14_a_partition_has_one_owner_in_a_generation,
    coordinator_rules.i15_nobody_who_is_fenced_goes_on,
    coordinator_rules.i16_epochs_rise_and_an_id_has_one_owner,
    coordinator_rules.i17_a_decision_stands_in_every_partition,
    coordinator_rules.i18_no_transaction_hangs,
    coordinator_rules.i19_a_batch_that_comes_again_is_answered_and_not_written,
    crash_rules.i20_what_was_acknowledged_before_a_stop_is_there_after_it,
    crash_rules.i21_recovery_twice_is_recovery_once,
    crash_rules.i22_what_is_rebuilt_is_what_was_in_memory,
    crash_rules.i23_damage_is_never_silent,
    crash_rules.i24_everybody_gets_on_after_the_last_fault,
    log_rules.i25_leader_epochs_rise_with_each_start_and_records_follow_them,
    isolation_rules.i26_the_markers_of_a_transaction_are_seen_together,
)


class HistoryError(Exception):
    """A history breaks an invariant; the message names it."""


def number(rule: Rule) -> str:
    return rule.__name__.partition("_")[0].upper()


def broken(history: History, rules: Iterable[Rule] = RULES) -> dict[str, list[str]]:
    """Collect the facts that contradict each broken invariant, by its number."""
    facts = Facts(history)
    found = {number(rule): list(islice(rule(facts), _SHOWN)) for rule in rules}
    return {name: facts_against for name, facts_against in found.items() if facts_against}


def audit(history: History) -> None:
    facts = Facts(history)
    for rule in RULES:
        against = list(islice(rule(facts), _SHOWN))
        if against:
            sentence = rule.__name__.partition("_")[2].replace("_", " ")
            raise HistoryError(f"{number(rule)}, {sentence}: {'; '.join(against)}"[:2_000])


def tally(history: History) -> "Counter[str]":
    """How much happened: a history in which nothing happens breaks no rule."""
    facts = Facts(history)
    counts: Counter[str] = Counter()
    for transaction in facts.transactions.values():
        counts["commits"] += transaction.is_told_committed
        counts["aborts"] += transaction.is_told_aborted
        counts["unknowns"] += any(end.span.outcome is Outcome.UNKNOWN for end in transaction.ends)
    counts["sends"] = sum(send.span.is_ok for send in history.sends)
    counts["reads"] = sum(len(poll.records) for poll in history.polls)
    counts["looks"] = len(set(history.looks))
    counts["offsets"] = len(history.offset_fetches)
    counts["generations"] = len({(seen.group, seen.generation) for seen in history.generations})
    counts["group_commits"] = sum(commit.span.is_ok for commit in history.group_commits)
    counts["restarts"] = len(history.restarts)
    counts["inits"] = sum(init.span.is_ok for init in history.inits)
    return counts


def require_at_least(counts: "Counter[str]", **floors: int) -> None:
    for name, floor in floors.items():
        if counts[name] < floor:
            raise HistoryError(f"only {counts[name]} {name}, and at least {floor} should have happened")
