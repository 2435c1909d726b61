"""The block of a page: the sum of all suites, the reasons, a row for each suite, and each test that does not pass with
its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.proofs.table import table
from tests.suites.reasons import NONE, Reason, Reasons
from tests.suites.results import Result
from tests.suites.suite import Collection, Outcome, Where
from tools.markers import with_block

RECORDS_IN = {
    "files": "files",
    "postgres": "PostgreSQL",
    "memory": "memory",
    "take-overs": "PostgreSQL, through take-overs",
}
_ON_KAFKA = Where("kafka")


@dataclass(frozen=True, slots=True)
class Judged:
    """A result with the reason of each test that has not passed, and what became of those tests on Apache Kafka."""

    result: Result
    reasons: Mapping[str, Reason]
    on_kafka: Mapping[str, Outcome]

    @property
    def tests(self) -> int:
        return len(self.result.outcomes)

    @property
    def passed(self) -> int:
        return self.tests - len(self.reasons)

    @property
    def faults(self) -> Sequence[str]:
        return [test for test, reason in self.reasons.items() if reason.words == NONE]


def judge(result: Result, on_kafka: Mapping[str, Outcome], reasons: Reasons) -> Judged:
    """Finds the reasons, some of them beside what Apache Kafka's run shows."""
    missed = {test: outcome for test, outcome in result.outcomes.items() if outcome.status != "passed"}
    storage = result.where.storage
    return Judged(
        result,
        {
            test: reasons.of(result.suite, test, outcome, on_kafka.get(test), storage)
            for test, outcome in missed.items()
        },
        {test: on_kafka[test] for test in missed if test in on_kafka},
    )


def judge_all(results: Iterable[Result], reasons: Reasons) -> list[Judged]:
    """Judges the results on oncelog by those on Kafka."""
    results = list(results)
    on_kafka = {each.suite: each.outcomes for each in results if each.where == _ON_KAFKA}
    return [judge(each, on_kafka.get(each.suite, {}), reasons) for each in results if each.where.broker != "kafka"]


def write_page(collection: Collection, results: Iterable[Result], reasons: Reasons) -> None:
    page, begins_as = collection.page, collection.begins_as
    text = (page if begins_as is None or page.exists() else begins_as).read_text(encoding="utf-8")
    page.write_text(with_block(text, collection.command, block(results, reasons)), encoding="utf-8")


def block(results: Iterable[Result], reasons: Reasons) -> str:
    judged = judge_all(results, reasons)
    parts = (_sum(judged), _reasons(judged, reasons), _suites(judged), _notes(judged), _not_passed(judged))
    return "\n\n".join(text for text in map("\n".join, parts) if text)


def _sum(judged: Sequence[Judged]) -> Iterator[str]:
    tests, passed = sum(each.tests for each in judged), sum(each.passed for each in judged)
    faults = sum(len(each.faults) for each in judged)
    yield f"**{passed:,} of {tests:,} tests pass**; {faults:,} of the others have no reason yet."
    found = {each.result.where.storage for each in judged}
    if len(storages := [each for each in RECORDS_IN if each in found]) > 1:
        yield f"By where the records are: {', '.join(_of_storage(judged, each) for each in storages)}."
    there = Counter(outcome.status == "passed" for each in judged for outcome in each.on_kafka.values())
    if there.total():
        yield f"Of the others {there.total():,} ran on Apache Kafka in the same way: {there[True]:,} pass there."


def _of_storage(judged: Sequence[Judged], storage: str) -> str:
    some = [each for each in judged if each.result.where.storage == storage]
    return f"{RECORDS_IN[storage]} {sum(each.passed for each in some):,} of {sum(each.tests for each in some):,}"


def _counts(judged: Iterable[Judged]) -> Counter[str]:
    return Counter(reason.words for each in judged for reason in each.reasons.values())


def _reasons(judged: Sequence[Judged], reasons: Reasons) -> Iterator[str]:
    counts = _counts(judged)
    rows = ((words, counts[words], means) for words, means in reasons.sentences.items() if counts[words])
    yield from table(("reason", "tests", "what it means"), rows, numbers=(1,))


def _suites(judged: Sequence[Judged]) -> Iterator[str]:
    titles = ("suite", "version", "records in", "tests", "passed", "not passed, by reason", "no reason yet", "run on")
    yield from table(titles, map(_row, judged), numbers=(3, 4, 6))


def _row(each: Judged) -> tuple[object, ...]:
    counts = _counts([each])
    without = counts.pop(NONE, 0)
    why = ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))
    result = each.result
    where = RECORDS_IN[result.where.storage]
    return result.suite, result.version, where, each.tests, each.passed, why or "–", without, result.date


def _notes(judged: Sequence[Judged]) -> Iterator[str]:
    """What tests were given in the place of what they asked for, and in how many suites."""
    times, suites = Counter[str](), Counter[str]()
    for each in judged:
        times.update(each.result.notes)
        suites.update(each.result.notes.keys())
    if times:
        rows = ((what, times[what], suites[what]) for what in sorted(times))
        yield from table(("in the place of what tests asked for", "times", "suites"), rows, numbers=(1, 2))


def _not_passed(judged: Sequence[Judged]) -> Iterator[str]:
    for each in judged:
        if each.reasons:
            yield f"### {each.result.suite}, records in {RECORDS_IN[each.result.where.storage]}"
            yield ""
            yield from _by_reason(each)
            yield ""


def _by_reason(judged: Judged) -> Iterator[str]:
    """A line for the tests of one reason, and one for each test without a reason, with what it says."""
    tests: dict[Reason, list[str]] = {}
    for test, reason in sorted(judged.reasons.items()):
        tests.setdefault(reason, []).append(test)
    for reason, several in tests.items():
        if reason.words != NONE:
            why = f" {reason.why}" if reason.why else ""
            yield f"- {reason.words}: {', '.join(f'`{test}`' for test in several)}.{why}"
    for test in sorted(judged.faults):
        why = judged.result.outcomes[test].why[:200].replace("`", "").strip()
        yield f"- **{NONE}**: `{test}`" + (f": `{why}`" if why else ".")
