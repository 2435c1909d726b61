"""`make proof WHAT=suites`: how outputs are read, which tests speak to a broker, when a failure is a fault of ours."""

from pathlib import Path

import pytest

from tests.proofs.suites.page import Found, judge, page
from tests.proofs.suites.suite import (
    Excuse,
    Outcome,
    Reason,
    Suite,
    go_tests,
    read_cargo,
    read_go,
    read_librdkafka,
    read_pytest,
)

OUTCOMES: dict[str, Outcome] = {
    "passes": "passed",
    "skips": "skipped",
    "follows": "failed",
    "wanders": "failed",
    "breaks": "failed",
}


def suite_of(*excuses: Excuse) -> Suite:
    return Suite("theirs", lambda: "v1", list, list, read_go, {}, lambda: Path("."), excuses=excuses)


def found_of(outcomes: dict[str, Outcome], broker: str = "oncelog") -> Found:
    return Found("theirs", "v1", broker, "files", outcomes, 1.0, "2026-11-29", "1.0")


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
            read_cargo,
            "test one ... ok\ntest two ... FAILED\ntest three ... ignored\n",
            {"one": "passed", "two": "failed", "three": "skipped"},
            id="cargo",
        ),
    ],
)
def test_outcomes_are_read_from_what_a_runner_prints(read, output, outcomes) -> None:  # type: ignore[no-untyped-def]
    assert read(output) == outcomes


def test_the_tests_of_a_broker_are_those_that_reach_its_address(tmp_path: Path) -> None:
    (tmp_path / "a_test.go").write_text(
        "func seeds() string {\n\treturn ADDRESS\n}\n"
        "func client() {\n\tseeds()\n}\n"
        "func TestReaches(t *testing.T) {\n\tclient()\n}\n"
        "func TestComputes(t *testing.T) {\n\tadd()\n}\n"
        "func Testament() {\n\tclient()\n}\n"
    )
    assert go_tests(tmp_path, "ADDRESS") == ["TestReaches"]


def test_a_failure_is_a_fault_unless_it_is_excused_or_kafka_has_it() -> None:
    suite = suite_of(Excuse("follow*", Reason.SEVERAL_BROKERS, "It reads from a follower."))
    judged = judge(found_of(OUTCOMES), suite, {"wanders": "failed", "breaks": "passed"})
    assert judged.reasons == {
        "skips": Reason.SKIPS_ITSELF,
        "follows": Reason.SEVERAL_BROKERS,
        "wanders": Reason.ON_KAFKA_TOO,
        "breaks": None,
    }
    assert (judged.passed, judged.tests, judged.faults) == (1, 5, ["breaks"])


def test_the_page_has_the_sum_and_each_test_that_does_not_pass() -> None:
    suite = suite_of(Excuse("follow*", Reason.SEVERAL_BROKERS, "It reads from a follower."))
    text = page([found_of(OUTCOMES), found_of({"wanders": "failed"}, "kafka")], [suite])
    assert "Together 1 of 5 passed; 1 have no reason yet." in text
    for line in (
        "- `follows`: needs several brokers. It reads from a follower.",
        "- `wanders`: fails on Apache Kafka 4.3, too.",
        "- `breaks`: **no reason yet**.",
    ):
        assert line in text
