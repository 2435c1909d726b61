"""Who may ask the console, who may change something through it, and how values get into its pages."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

import oncelog.console
from oncelog.console.query import BadQuery, Query
from oncelog.console.rendering import Renderer, count, duration, environment, moment, url
from oncelog.console.security import refusal
from oncelog.console.trouble import trouble_of
from tests.support.requests.hostile import HOSTILE, names

RENDERER = Renderer({})
FOLDER = Path(oncelog.console.__file__).parent
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>{{ 7*7 }}"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    {
        "127.0.0.1:8480": True,
        "localhost:8480": True,
        "LOCALHOST": True,
        "[::1]:8480": True,
        "192.168.0.7:8480": True,
        "console.example": True,
        "evil.example": False,
        "localhost.evil.example": False,
        "127.0.0.1.evil.example:8480": False,
        "evil.example@127.0.0.1.x": False,
        "": False,
        "[::1": False,
    }.items(),
)
def test_the_console_answers_to_addresses_and_to_names_that_it_was_given(host: str, is_ours: bool) -> None:
    refused = refusal("GET", Headers({"host": host}), ("console.example",))
    assert (refused is None) == is_ours


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        ({"origin": "http://127.0.0.1:8480"}, True),
        ({"origin": "http://127.0.0.1:8480", "sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://127.0.0.1:8480", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({}, False),
    ],
)
def test_a_change_is_asked_for_by_a_page_of_the_console_alone(headers: dict[str, str], is_ours: bool) -> None:
    given_headers = Headers({"host": "127.0.0.1:8480", **headers})
    assert (refusal("POST", given_headers) is None) == is_ours
    assert refusal("GET", given_headers) is None


def test_a_request_with_two_hosts_or_two_origins_is_refused() -> None:
    ours = (b"host", b"127.0.0.1:8480")
    origins = [(b"origin", b"http://127.0.0.1:8480"), (b"origin", b"http://evil.example")]
    assert refusal("GET", Headers(raw=[ours, (b"host", b"localhost")])) is not None
    assert refusal("POST", Headers(raw=[ours, *origins])) is not None


# --- values in pages --------------------------------------------------------------------------------------------------


def _templates() -> list[str]:
    return environment().list_templates()


@pytest.mark.parametrize("name", _templates())
def test_no_template_lets_a_value_out_unescaped_or_has_script_or_style_inside(name: str) -> None:
    source = (FOLDER / "templates" / name).read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe|autoescape|Markup|javascript:", source)
    assert not re.search(r"\sstyle\s*=|\son\w+\s*=", source)
    assert re.findall(r"<script[^>]*>", source) == (
        ['<script src="/static/console.js" defer>'] if name == "layout.html" else []
    )
    assert not re.search(r"""(?:href|src|action|value|title)=(?:\{|[^"'\s>])""", source), "an attribute without quotes"


def test_the_script_makes_markup_of_nothing_but_what_the_server_rendered() -> None:
    source = (FOLDER / "static" / "console.js").read_text(encoding="utf-8")
    assert re.findall(r"innerHTML = (.*);", source) == ["html", "event.data"]
    assert not re.search(r"eval|insertAdjacent|outerHTML|document\.write|Function\(", source)
    assert "http:" not in source and "https:" not in source


@given(names)
def test_any_name_is_one_printable_text_in_a_page(name: str) -> None:
    shown = RENDERER.part("trouble", trouble_of(BadQuery(f"a{name}b{MARKUP}")))
    said = shown.partition('<p class="said">')[2].partition("</p>")[0]
    assert not re.search(r"[<>\"']", said)
    assert shown.replace("\n", "").isprintable()


@given(names)
def test_any_name_comes_back_from_an_address_as_it_was(name: str) -> None:
    address = url("/transaction", id=name, page=None)
    assert address.isascii() and address.isprintable() and not re.search(r"[<>\"' ]", address)
    there = parse_qs(urlsplit(address).query, keep_blank_values=True)
    assert there == {"id": [name.encode("utf-8", "replace").decode()]}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_that_forge_addresses_name_no_other_page(name: str) -> None:
    assert urlsplit(url("/transaction", id=name)).path == "/transaction"


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "-1", "1.5", "²", "٣", "9" * 19, "1e3", "0x1", " 1"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadQuery):
        Query({"partition": text}).number("partition")


@given(st.integers(0, 500), st.integers(1, 50))
def test_the_pages_of_a_list_are_the_list(total: int, size: int) -> None:
    items = list(range(total))
    first = Query({}).page_of(items, size)
    pages = [Query({"page": str(number + 1)}).page_of(items, size) for number in range(first.page_count)]
    assert [item for page in pages for item in page.items] == items
    assert Query({"page": str(2**62)}).page_of(items, size).page == first.page_count


# --- words ------------------------------------------------------------------------------------------------------------


def test_times_and_counts_are_said_as_people_say_them() -> None:
    spans = {None: "–", 0: "0 ms", 999: "999 ms", 12_449: "12.4 s", 200_000: "3 min 20 s", 9_000_000: "2 h 30 min"}
    assert {each: duration(each) for each in spans} == spans
    assert duration(190_000_000) == "2 d 4 h"
    assert (count(1, "batch"), count(1_024, "batch"), count(0, "record")) == ("1 batch", "1,024 batches", "0 records")
    assert (moment(-1), moment(2**62)) == ("–", f"{2**62} ms")
