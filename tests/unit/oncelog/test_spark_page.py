"""What the page of `oncelog spark report` draws."""

import re

from oncelog.tools.spark.attempts import Attempt
from oncelog.tools.spark.page import page
from oncelog.tools.spark.report import Batch, Report
from oncelog.tools.spark.state import State

STATE = State("spark-sink-q", "q", 3, 3, None, "batch 4 is planned and published", True, ())


def drawn(*lengths_ms: int, name: str | None = None) -> str:
    """A page with a batch of each length, all of which were committed when they were done."""
    batches = [
        Batch(number, 1_000, Attempt(7, number, "committed", ended_ms=1_000 + each), 1_000 + each)
        for number, each in enumerate(lengths_ms)
    ]
    return page(Report("checkpoint", "localhost:9092", 0, STATE, batches, name))


def widths(text: str) -> list[float]:
    """The widths of each batch's bars, up to its commit."""
    return [float(each) for each in re.findall(r"width='([\d.]+)' [^>]*fill='#3b7dd8'", text)]


def test_a_batch_that_took_far_longer_than_the_others_is_cut_off_and_says_how_long_it_was() -> None:
    text = drawn(14_000, 300, 600, 500)
    assert widths(text) == [860.0, 430.0, 860.0, 716.7]
    assert "14.0 s ▸" in text and ">0.6 s</text>" in text


def test_batches_of_like_length_share_one_scale() -> None:
    text = drawn(1_000, 500, 750)
    assert widths(text) == [860.0, 430.0, 645.0]
    assert "▸" not in text


def test_the_title_is_the_name_of_the_query_or_else_its_id() -> None:
    assert "<title>hourly totals</title>" in drawn(1, name="hourly totals")
    assert "<title>Query q</title>" in drawn(1)
