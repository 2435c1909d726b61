"""A test that walks a table checks every row, and names those that fail."""

import pytest

from tests.support.tables import rows


def test_every_row_is_checked_and_each_that_fails_is_named() -> None:
    seen = []

    @rows("number, name", [(0, "zero"), (1, "one"), (2, "two")], lambda row: row[1])
    def check(number: int, name: str, limit: int) -> None:
        seen.append(number)
        assert number < limit, name
        if number == 0:
            pytest.fail("none")

    with pytest.raises(BaseExceptionGroup, match=r"2 of 3 rows fail: zero; two") as caught:
        check(limit=2)
    assert seen == [0, 1, 2]
    assert len(caught.value.exceptions) == 2


@pytest.mark.parametrize("outer", [1, 2])
@rows("inner", [3, 4])
def test_a_table_is_walked_for_each_parameter_and_takes_fixtures(inner: int, outer: int, tmp_path: object) -> None:
    assert (inner, outer) in {(3, 1), (3, 2), (4, 1), (4, 2)} and tmp_path


def test_a_table_without_rows_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no rows for name"):
        rows("name", [])
