"""The comparison finds every way in which the result can be wrong; the loaders' shares hold each purchase once."""

import re
import xml.dom.minidom
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consuming.raw_batches import Fate
from oncelog.pipeline.demo.data import Purchase, totals_of
from oncelog.pipeline.demo.load import share_of
from oncelog.pipeline.demo.loading import Troubles
from oncelog.pipeline.demo.picture import draw, money
from oncelog.pipeline.demo.survey import Span, Strip, merge_spans
from oncelog.pipeline.demo.totalling import Totalling
from oncelog.pipeline.demo.verify import Published, Seen, differences

PURCHASES = [
    Purchase("a", "19970101", 100),
    Purchase("b", "19970201", 200),
    Purchase("a", "19970201", 300),
    Purchase("a", "19970201", 300),
]
EXPECTED = totals_of(PURCHASES)
STRIPS = [
    Strip(0, (Span(0, 10, "committed"), Span(10, 14, "aborted"), Span(14, 15, "marker"), Span(15, 20, "committed"))),
    Strip(1, ()),
]


def seen() -> Seen:
    return Seen(4, 900, Counter(range(4)), Counter({"a": 700, "b": 200}))


def published() -> Published:
    return Published(7, {"a": 700, "b": 200}, {"1997-01": 100, "1997-02": 800}, 4)


def test_what_is_equal_has_no_difference() -> None:
    assert differences(EXPECTED, seen(), published()) == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda s, p: s.rows.update([2]), "more than once, first row 2"),
        (lambda s, p: s.rows.pop(1), "missing, first row 1"),
        (lambda s, p: setattr(s, "cents", 901), r"read_committed total: 901 instead of 900 \(\+1\)"),
        (lambda s, p: s.by_customer.update({"a": 1, "b": -1}), "read_committed, customer: 2 differ"),
        (lambda s, p: p.by_customer.pop("b"), "pipeline, customer: 1 differ, first b: None instead of 200"),
        (lambda s, p: p.by_month.update({"1997-02": 801}), "pipeline, month: 1 differ"),
        (lambda s, p: setattr(p, "purchases", 3), "pipeline purchases: 3 instead of 4"),
    ],
)
def test_each_kind_of_damage_is_reported(spoil: object, told: str) -> None:
    committed, totals = seen(), published()
    spoil(committed, totals)  # type: ignore[operator]
    (difference, *_) = differences(EXPECTED, committed, totals)
    assert re.search(told, difference)


@pytest.mark.parametrize("loader_count", [1, 2, 3])
def test_the_shares_of_all_loaders_hold_every_row_but_the_first_once(loader_count: int) -> None:
    purchases = [Purchase(f"customer-{number % 37}", "19970101", number) for number in range(500)]
    rows = [row for loader in range(loader_count) for row, _ in share_of(purchases, loader, loader_count, 4)]
    assert sorted(rows) == list(range(1, 500))


def test_the_picture_says_which_reader_is_right_and_which_batch_came_twice() -> None:
    totalling = Totalling(published=[0, 1, 3], skipped=[2], died_after=2)
    troubles = Troubles(timeline=[(1.5, "daemon <killed>")])
    svg = draw("title", 900, 900, 1_000, 900, troubles, STRIPS, totalling)
    xml.dom.minidom.parseString(svg)
    assert svg.count("right to the cent") == 3
    assert "+1.00" in svg
    assert "daemon &lt;killed&gt;" in svg
    assert "skipped by its marker" in svg
    assert totalling.batch_count == 4


def test_the_picture_draws_an_aborted_stretch_as_long_as_it_is() -> None:
    svg = draw("title", 900, 900, 900, 900, Troubles(), STRIPS, Totalling(published=[0]))
    widths = [float(width) for width in re.findall(r"width='([\d.]+)' height='20' fill='url\(#aborted\)'", svg)]
    assert widths == [pytest.approx(680 * 4 / 20)]


SPANS = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["plain", "committed", "aborted", "marker"])))


@given(SPANS)
def test_joined_spans_cover_the_same_offsets_with_the_same_fates(lengths: list[tuple[int, Fate]]) -> None:
    spans, offset = [], 0
    for length, fate in lengths:
        spans.append(Span(offset, offset + length, fate))
        offset += length
    result = merge_spans(spans)
    fates = [span.fate for span in result for _ in range(span.first_offset, span.next_offset)]
    assert fates == [fate for length, fate in lengths for _ in range(length)]
    assert all(left.fate != right.fate or left.fate == "marker" for left, right in pairwise(result))


def test_money_keeps_its_cents() -> None:
    assert money(250_031_563) == "2,500,315.63"
    assert money(5) == "0.05"
