"""docs/compare/kafkas-own-tests.md, from the results of a run."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.results import NONE, ClassResult, Reasons, by_reason
from tests.support.foreign.interop import ROOT

PAGE = Path(ROOT / "docs" / "compare" / "kafkas-own-tests.md")
HEAD = """# Apache Kafka's own tests

The tests of Apache Kafka 4.3 that start a cluster, run against oncelog: a stand-in for Kafka's test cluster starts one
`oncelog serve` for each. The classes are Kafka's, compiled, as Maven Central has them; those marked * are in no
registry and were compiled from Kafka's public sources of its branch 4.3. A test with parameters counts once for each of
their values.

A cluster of several brokers is one node here: a replication factor above 1 is made 1, and assignments name the node
that there is. `make kafka-tests` runs them all and writes this page (`ONLY='kafka.server.*'` runs a part and replaces
its rows); a part runs in `make interop`.
"""


def page(results: Mapping[str, ClassResult], reasons: Reasons) -> str:
    ran = [results[name] for name in sorted(results) if results[name].tests]
    tests, passed = sum(each.tests for each in ran), sum(each.passed for each in ran)
    why = by_reason(ran)
    lines = [
        HEAD,
        f"**{passed:,} of {tests:,} tests pass**, in {len(ran)} classes.",
        "",
        "| not passed | tests | reason |",
        "|---|---|---|",
        *(
            f"| {name} | {why[name]} | {sentence} |"
            for name, sentence in reasons.sentences.items()
            if why[name] or name == NONE
        ),
        "",
        "## Classes",
        "",
        "| class | tests | passed | not passed | run |",
        "|---|---|---|---|---|",
        *(_row(each) for each in ran),
        "",
    ]
    faults = [(each, one) for each in ran for one in each.missed if one.reason == NONE]
    if faults:
        lines += ["## Without a reason", "", *sorted({_fault(each, one.method, one.why) for each, one in faults}), ""]
    return "\n".join(lines)


def _row(result: ClassResult) -> str:
    counts = Counter(each.reason for each in result.missed)
    missed = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "–"
    star = "" if result.origin.endswith(".jar") else " *"
    return f"| `{result.test_class}`{star} | {result.tests} | {result.passed} | {missed} | {result.date} |"


def _fault(result: ClassResult, method: str, why: str) -> str:
    short = result.test_class.rpartition(".")[2]
    return f"- `{short}.{method}`: `{why.replace('`', '').strip()}`"
