"""Tests of others: how outputs are read, which tests speak to a broker, when a failure is a fault of ours, what is kept
and written."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.suites.clients import CLIENTS, go_tests
from tests.suites.kafka import KAFKA
from tests.suites.outputs import read_go, read_junit, read_librdkafka, read_notes, read_pytest
from tests.suites.page import block, judge, write_page
from tests.suites.reasons import LATE, NONE, ON_KAFKA_TOO, SKIPS_ITSELF, Given, Reason, Reasons, read_reasons
from tests.suites.results import KEPT, Result
from tests.suites.run import result_of
from tests.suites.suite import Broker, Collection, Outcome, Suite, Where

FOLLOWS = Reason("needs several brokers", "It reads from a follower.")
REASONS = Reasons(
    {FOLLOWS.words: "It wants another.", ON_KAFKA_TOO: "It did.", NONE: "It is a fault."},
    {"out of reach": "reaches into the JVM"},
    [Given("the*", "follow*", FOLLOWS)],
)
OUTCOMES = {
    "passes": Outcome("passed"),
    "skips": Outcome("skipped"),
    "hangs": Outcome("late"),
    "follows": Outcome("failed"),
    "wanders": Outcome("failed"),
    "reaches": Outcome("failed", "an Error < X.y is out of reach"),
    "breaks": Outcome("failed", "1 is: `2`"),
}
ON_KAFKA = {"wanders": Outcome("failed"), "breaks": Outcome("passed")}
JUNIT = """\
oncelog-test {"id": "[class:kafka.ATest]/[method:works()]", "method": "works", "status": "started"}
a line without an end oncelog-test {"id": "[class:kafka.ATest]/[method:works()]", "method": "works", "status": "passed"}
oncelog-test {"id": "[a]/[test-template:looks()]/[test-template-invocation:#2]", "method": "looks", "status": "failed",\
 "why": ["java.lang.AssertionError: not\\n met", "  at a line", "oncelog.kafkatests.OutOfReach: X.y"]}
oncelog-test {"id": "[a]/[method:off()]", "method": "off", "status": "skipped"}
oncelog-test {"id": "[a]/[method:hangs()]", "method": "hangs", "status": "started"}
oncelog-test {"id": "[class:kafka.ATest]", "class": "kafka.ATest", "status": "failed", "why": ["java.lang.Error: null"]}
oncelog-test {"id": "[a]/[meth
"""


def result(outcomes: Mapping[str, Outcome], broker: str = "oncelog") -> Result:
    return Result("theirs", "v1", Where(broker), outcomes, 1.0, "2026-11-29", "1.0")


@pytest.mark.parametrize(
    ("read", "output", "outcomes"),
    [
        pytest.param(
            read_go,
            "=== RUN   TestA\n=== RUN   TestA/one\n    --- PASS: TestA/one (0.00s)\n--- PASS: TestA (1.00s)\n"
            "=== RUN   TestB\n--- SKIP: TestB (0.00s)\n=== RUN   TestC\npanic: gone\n",
            {"TestA": "passed", "TestB": "skipped", "TestC": "failed"},
            id="go, the last test ended the process",
        ),
        pytest.param(
            read_librdkafka,
            "\033[32m| 0001_multiobj    |     PASSED |   1.234s |\033[0m\n| 0002_unkpart |     FAILED |   9.9s |\n",
            {"0001_multiobj": "passed", "0002_unkpart": "failed"},
            id="librdkafka",
        ),
        pytest.param(
            read_pytest,
            "a/t.py::test_one PASSED [ 10%]\na/t.py::test_two[x y] SKIPPED (no) [ 20%]\na/t.py::test_one ERROR [ 9%]\n",
            {"a/t.py::test_one": "failed", "a/t.py::test_two[x y]": "skipped"},
            id="pytest, an end that fails",
        ),
        pytest.param(
            read_junit,
            JUNIT,
            {
                "works": "passed",
                "looks/2": "failed: java.lang.AssertionError: not met < oncelog.kafkatests.OutOfReach: X.y",
                "off": "skipped",
                "hangs": "late",
                "(the class)": "failed: java.lang.Error: null",
            },
            id="JUnit, a process that was ended",
        ),
    ],
)
def test_outcomes_are_read_from_what_a_runner_prints(
    read: Callable[[str], Mapping[str, Outcome]], output: str, outcomes: Mapping[str, str]
) -> None:
    """Each test that began is counted once, by what its runner has printed of it."""
    assert {test: str(outcome) for test, outcome in read(output).items()} == outcomes


def test_what_a_test_was_given_in_the_place_of_what_it_asked_for_is_counted() -> None:
    """Notes of all tests are summed up, without the particulars behind a colon."""
    notes = '{"replicas made 1: 3": 2, "replicas made 1: 2": 1, "take-overs": 1}'
    line = f'oncelog-test {{"status": "passed", "notes": {notes}}}'
    assert read_notes(f"{JUNIT}{line}\n{line}\n") == {"replicas made 1": 6, "take-overs": 2}


def test_the_tests_of_a_broker_are_those_that_reach_its_address(tmp_path: Path) -> None:
    """A Go test that calls a function with the address is one, through others, too."""
    (tmp_path / "a_test.go").write_text(
        "func seeds() string {\n\treturn ADDRESS\n}\n"
        "func client() {\n\tseeds()\n}\n"
        "func TestReaches(t *testing.T) {\n\tclient()\n}\n"
        "func TestComputes(t *testing.T) {\n\tadd()\n}\n"
        "func Testament() {\n\tclient()\n}\n"
    )
    assert go_tests(tmp_path, "ADDRESS") == ["TestReaches"]


@pytest.mark.parametrize("suite", CLIENTS.suites(), ids=[each.name for each in CLIENTS.suites()])
def test_the_processes_of_a_client_know_where_the_broker_is(suite: Suite, tmp_path: Path) -> None:
    """Their environment has its address."""
    given = suite.environment(Broker("oncelog", tmp_path, bootstrap="127.0.0.1:19092"))
    assert any("127.0.0.1:19092" in value for value in given.values())


@pytest.mark.parametrize(
    ("script", "outcomes"),
    [
        pytest.param("echo --- PASS: $0 '(0s)'", {"A": "passed", "B": "passed"}, id="prints"),
        pytest.param("exit 1", {"A": "failed", "B": "failed"}, id="fails in silence"),
        pytest.param("exit 0", {}, id="has no test"),
    ],
)
def test_each_test_of_a_suite_that_runs_them_one_by_one_has_a_process(script: str, outcomes: Mapping[str, str]) -> None:
    """A process that ends well in silence had no test to run; one that fails in silence has failed."""
    suite = Suite(
        "theirs",
        lambda: "v1",
        lambda: ["A", "B"],
        lambda tests, _: ["sh", "-c", script, *tests],
        read_go,
        starts_brokers=True,
        processes="each test",
    )
    assert {test: str(each) for test, each in result_of(suite, Where()).outcomes.items()} == outcomes


def test_a_run_continues_behind_a_test_that_ends_its_process() -> None:
    """The tests that are left have a process of their own."""
    script = "import sys; print('=== RUN  ', sys.argv[1]); print('--- PASS: B (0s)' if sys.argv[1] == 'B' else '')"
    suite = Suite(
        "theirs",
        lambda: "v1",
        lambda: ["A", "B"],
        lambda tests, _: [sys.executable, "-c", script, *tests],
        read_go,
        starts_brokers=True,
    )
    assert {test: str(each) for test, each in result_of(suite, Where()).outcomes.items()} == {
        "A": "failed",
        "B": "passed",
    }


def test_a_failure_is_a_fault_unless_it_has_a_reason_or_kafka_has_it() -> None:
    """The table's reason by name comes first, then what the outcome shows, then Apache Kafka's run."""
    judged = judge(result(OUTCOMES), ON_KAFKA, REASONS)
    assert {test: reason.words for test, reason in judged.reasons.items()} == {
        "skips": SKIPS_ITSELF,
        "hangs": LATE,
        "follows": FOLLOWS.words,
        "wanders": ON_KAFKA_TOO,
        "reaches": "reaches into the JVM",
        "breaks": NONE,
    }
    assert (judged.passed, judged.tests, judged.faults) == (1, 7, ["breaks"])


@pytest.mark.parametrize(("storage", "words"), [("take-overs", FOLLOWS.words), ("files", NONE)])
def test_a_reason_may_be_of_some_records_alone(storage: str, words: str) -> None:
    reasons = replace(REASONS, given=[Given("theirs (take-overs)", "*", FOLLOWS)])
    judged = judge(replace(result({"breaks": Outcome("failed")}), where=Where(storage=storage)), {}, reasons)
    assert judged.reasons["breaks"].words == words


def test_each_reason_has_a_sentence() -> None:
    """No reason that a test can have is without its meaning on the page."""
    reasons = read_reasons()
    words = {SKIPS_ITSELF, LATE, ON_KAFKA_TOO, NONE, *reasons.said.values()}
    assert words | {each.reason.words for each in reasons.given} <= reasons.sentences.keys()


def test_results_are_read_as_they_were_kept(tmp_path: Path) -> None:
    """The newest run of a suite, a broker and a storage is kept."""
    newest, elsewhere = replace(result(OUTCOMES), notes={"replicas made 1": 2}), result(ON_KAFKA, "kafka")
    for each in (result({}), elsewhere, newest):
        KEPT.keep(tmp_path / "kept.jsonl", each)
    assert KEPT.read(tmp_path / "kept.jsonl") == [elsewhere, newest]


def test_the_page_has_the_sum_and_each_test_that_does_not_pass() -> None:
    """Tests of one reason share a line, and one without a reason has what it says."""
    noted = [replace(result(OUTCOMES), suite=suite, notes={"replicas made 1": 2}) for suite in ("theirs", "those")]
    text = block([noted[0], result(ON_KAFKA, "kafka")], REASONS)
    assert "| replicas made 1 | 4 | 2 |" in " ".join(block(noted, REASONS).split())
    for line in (
        "**1 of 7 tests pass**; 1 of the others have no reason yet.",
        "| needs several brokers | 1 | It wants another. |",
        "- needs several brokers: `follows`. It reads from a follower.",
        "- fails on Apache Kafka 4.3, too: `wanders`.",
        "- **no reason yet**: `breaks`: `1 is: 2`",
    ):
        assert line in text


@pytest.mark.parametrize("collection", [CLIENTS, KAFKA], ids=["clients", "kafka"])
def test_a_page_is_written_from_results_and_reasons_alone(collection: Collection, tmp_path: Path) -> None:
    """The page in the documentation is the one that its results make; where there is none, one begins."""
    results, reasons = KEPT.read(collection.results), read_reasons()
    text = (collection.page if collection.page.exists() else collection.begins_as or tmp_path).read_text()
    page, begins_as = tmp_path / "page.md", tmp_path / "begins_as.md"
    begins_as.write_text(text)
    write_page(replace(collection, page=page, begins_as=begins_as), results, reasons)
    assert block(results, reasons) in page.read_text()
    assert page.read_text() == text or not collection.page.exists()
