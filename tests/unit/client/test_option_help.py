"""`help` of a client lists its options as its settings have them."""

import pydoc
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from typing import Any

import pytest

import oncelog
from oncelog import AdminSettings, ConsumerSettings, ProducerSettings, SessionSettings, ShareConsumerSettings, sync
from oncelog.client.values import option_help
from oncelog.client.values.option_help import declarations, unit_of

CLIENTS = {
    "Producer": ProducerSettings,
    "Consumer": ConsumerSettings,
    "Admin": AdminSettings,
    "TransactionalSession": SessionSettings,
    "ShareConsumer": ShareConsumerSettings,
}
COUNTS = {"max_in_flight_requests_per_connection", "max_poll_records", "max_records"}
"""Numbers without a unit."""
OPTION = re.compile(r"^ \|    (\w+): ([^\n]+)\n((?: \|        .*\n)+)", re.MULTILINE)
BOTH = pytest.mark.parametrize("module", [oncelog, sync], ids=["asyncio", "blocking"])


def listed(client: type) -> dict[str, tuple[str, str]]:
    """The options that `help` shows: by name what is beside it, and the text below."""
    shown = pydoc.plain(pydoc.render_doc(client))
    _, _, options = shown.partition("Options, as keyword arguments:")
    found = OPTION.findall(options)
    assert len({name for name, _, _ in found}) == len(found)
    return {name: (beside, " ".join(below.replace(" |", "").split())) for name, beside, below in found}


@BOTH
@pytest.mark.parametrize("name", CLIENTS)
def test_help_lists_every_option_with_its_default_its_unit_and_its_meaning(module: Any, name: str) -> None:
    """All that the settings take, in their order, each once, with the text of the documentation's pages."""
    settings = CLIENTS[name]
    found = listed(getattr(module, name))
    assert sorted(found) == sorted(each.name for each in fields(settings))
    meant = {option: each for kind in settings.__mro__[:-1] for option, each in declarations(kind).items()}
    for each in fields(settings):
        beside, below = found[each.name]
        assert below == meant[each.name].meaning
        default = "" if each.default is MISSING else f" = {each.default!r}"
        unit = f" ({unit_of(each.name)})" if unit_of(each.name) else ""
        assert re.sub(r"(?<=\d)_(?=\d)", "", beside) == f"{meant[each.name].type}{default}{unit}"


@pytest.mark.parametrize("settings", CLIENTS.values(), ids=CLIENTS)
def test_every_number_has_a_unit_or_is_a_count(settings: type) -> None:
    """A new option needs a name that says its unit, or a place in the table of sizes."""
    numbers = [each.name for each in fields(settings) if type(each.default) in (int, float)]
    assert numbers
    assert [name for name in numbers if not unit_of(name) and name not in COUNTS] == []
    others = [each.name for each in fields(settings) if each.name not in numbers]
    assert [name for name in others if unit_of(name)] == []


@BOTH
def test_the_text_of_the_class_is_above_its_options(module: Any) -> None:
    """The description and usage of the class come first; an object has the same text."""
    for name in CLIENTS:
        text, _, options = getattr(module, name).__doc__.partition("\n\nOptions, as keyword arguments:\n\n")
        assert f"with {name}(" in text
        assert "client_id" in options or name == "TransactionalSession"
    assert sync.Admin("host:1").__doc__ == sync.Admin.__doc__


def test_without_sources_the_names_and_the_defaults_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was packed without them still has help."""

    def none(_: object) -> str:
        raise OSError("source code not available")

    monkeypatch.setattr(option_help.inspect, "getsource", none)
    assert "\n  linger_ms = 5 (milliseconds)\n" in (oncelog.Producer.__doc__ or "")


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """The import of the clients, which programs pay for, makes no such text."""
    program = (
        "import sys; from oncelog import Admin, Consumer, Producer; name = 'oncelog.client.values.option_help'\n"
        "print(name in sys.modules); Producer.__doc__; print(name in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]
