"""What is written of Kafka's own tests is what a run found, by reasons that the table has."""

from pathlib import Path

import pytest

from tests.kafka.launch import outcomes
from tests.kafka.page import page
from tests.kafka.results import NONE, read_reasons, read_results, result_of, write_results

LINES = """\
{"class": "kafka.ATest", "id": "[class:kafka.ATest]/[method:works()]", "method": "works", "status": "started", "ms": 0}
{"class": "kafka.ATest", "id": "[class:kafka.ATest]/[method:works()]", "method": "works", "status": "passed", "ms": 12}
{"id": "[a]/[test-template:looks()]/[test-template-invocation:#2]", "method": "looks", "status": "failed", "ms": 9, \
"why": ["java.lang.AssertionError: not met", "  at a line", "oncelog.kafkatests.OutOfReach: reaches into the JVM: X.y"]}
{"id": "[a]/[method:differs()]", "method": "differs", "status": "failed", "ms": 9, "why": ["java.lang.Error: 1 is 2"]}
{"id": "[a]/[method:disabled()]", "method": "disabled", "status": "skipped", "ms": 0}
{"id": "[a]/[method:hangs()]", "method": "hangs", "status": "started", "ms": 0}
{"id": "[a]/[meth
"""


def test_each_reason_has_a_sentence_and_names_a_test_once() -> None:
    """No test has two reasons, and no reason is without a sentence on the page."""
    reasons = read_reasons()
    assert {*reasons.of_tests.values(), NONE, "jvm", "slow"} <= reasons.sentences.keys()


def test_a_test_passes_or_has_a_reason_or_is_a_fault(tmp_path: Path) -> None:
    """Of the launcher's lines each test that began is counted once: what reaches into the JVM says so itself."""
    result = result_of("kafka.ATest", "a.jar", "2026-11-29", outcomes("kafka.ATest", LINES), read_reasons())
    assert (result.tests, result.passed) == (4, 1)
    assert [(each.method, each.invocation, each.reason) for each in result.missed] == [
        ("looks", "2", "jvm"),
        ("differs", "", NONE),
        ("hangs", "", "slow"),
    ]
    write_results({"kafka.ATest": result}, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == {"kafka.ATest": result}
    assert "| `kafka.ATest` | 4 | 1 | jvm: 1, none: 1, slow: 1 | 2026-11-29 |" in page({"": result}, read_reasons())


@pytest.mark.parametrize("name", ["kafka.ATest.differs", "kafka.ATest"])
def test_the_table_of_reasons_names_a_method_or_a_class(name: str, tmp_path: Path) -> None:
    """A line in the table is the reason of what it names."""
    table = tmp_path / "reasons.toml"
    table.write_text(f'[reasons]\ndecided = "A difference."\n[tests]\ndecided = ["{name}"]\n', encoding="utf-8")
    differs = outcomes("kafka.ATest", LINES)[2]
    assert read_reasons(table).of(differs) == "decided"
