"""Reading purchases: amounts are exact, bad lines are named, totals are what the lines say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.pipeline.demo.data import InputError, Purchase, read_cdnow, read_purchases, totals_of


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join((" customer_id date number dollars", *lines)) + "\n")
    return path


def test_amounts_become_whole_cents_without_a_binary_fraction(tmp_path: Path) -> None:
    path = written(
        tmp_path / "input", " 00001 19970101  1   11.77", " 00002 19970112  5  0.29", "00002 19970112 1 1.10"
    )
    assert read_cdnow(path) == [
        Purchase("00001", "19970101", 1177),
        Purchase("00002", "19970112", 29),
        Purchase("00002", "19970112", 110),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "00001 19970101 1 11.7",
        "00001 199701 1 11.77",
        "00001 19970101 11.77",
        "00001 19970101 1 -1.00",
        "00001 19971301 1 1.00",
        "x",
    ],
)
def test_a_bad_line_is_an_error_that_names_its_number(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "input", "00001 19970101 1 11.77", line)
    with pytest.raises(InputError, match="line 3"):
        read_cdnow(path)


def test_a_spoilt_purchase_in_the_first_line_does_not_pass_for_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("00001 19970101 1 11.7\n00001 19970101 1 11.77\n")
    with pytest.raises(InputError, match="line 1"):
        read_cdnow(path)
    path.write_text("00001 19970101 1 11.77\n")
    assert len(read_cdnow(path)) == 1


def test_a_file_without_purchases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no purchases"):
        read_cdnow(written(tmp_path / "input"))
    with pytest.raises(InputError, match="cannot read"):
        read_purchases("cdnow", tmp_path / "missing")


@given(
    st.lists(
        st.builds(
            Purchase,
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["19970101", "19970131", "19980201"]),
            st.integers(0, 10**7),
        )
    )
)
def test_totals_by_customer_and_by_month_both_add_up_to_the_whole(purchases: list[Purchase]) -> None:
    totals = totals_of(purchases)
    assert totals.count == len(purchases)
    assert totals.cents == sum(totals.by_customer.values()) == sum(totals.by_month.values())
    assert totals.by_month.keys() <= {"1997-01", "1998-02"}
