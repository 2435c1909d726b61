"""docs/spark/spark.md says of each difference from Spark's own format which test shows it."""

import pytest

from tests.test_guarantees_page import ROOT, TESTS, functions_of

PAGE = (ROOT / "docs" / "spark" / "spark.md").read_text(encoding="utf-8")
SECTION = PAGE.partition('\n### What differs from `format("kafka")`\n')[2].partition("\n##")[0]
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_each_difference_is_shown_by_a_test_that_exists(row: list[str]) -> None:
    *_, shown_by = row
    assert len(row) == 4
    (named,) = TESTS.findall(shown_by)
    assert named[1] in functions_of(named[0]), "renamed? then name the test as it is now"


def test_the_differences_are_there() -> None:
    assert len(ROWS) > 10
