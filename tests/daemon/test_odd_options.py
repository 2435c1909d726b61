"""Whatever is typed as an option or argument, a command that asks a cluster ends with a sentence, not a traceback."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client.blocking.clients import Admin
from tests.support.pages.command_tree import ARGUMENTS, ASKING, command_at
from tests.support.processes.daemon import Daemon

_HUGE = "1" * 30
SAMPLE = ["", "nan", _HUGE, f"@{_HUGE}", f"a={_HUGE}"]
REST = [
    *(
        " ",
        "%",
        "\\",
        "-",
        ":",
        "=",
        "a=",
        "=b",
        "@",
        "@-",
        "@-1",
        "0",
        "-1",
        "inf",
        "1e400",
        "a\nb",
        "é\udcff",
        "x" * 300,
    ),
    *(
        f"-{_HUGE}",
        f"t:{_HUGE}",
        f"{_HUGE}d",
        "9" * 18,
        "@" + "9" * 18,
        "@9999-12-31",
        "@0001-01-01",
        "@-99999999d",
        "1000d",
    ),
]
FOLLOWING = ("txn tail",)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [each for each in ASKING if each not in FOLLOWING])
def test_an_odd_value_is_refused_in_a_sentence(name: str, daemon: Daemon) -> None:
    assert failures(name, daemon, SAMPLE) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in ASKING if each not in FOLLOWING])
def test_any_odd_value_is_refused_in_a_sentence(name: str, daemon: Daemon) -> None:
    assert failures(name, daemon, REST) == []


def failures(name: str, daemon: Daemon, values: list[str]) -> list[tuple[str, str, Any]]:
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics("t", "x", exist_ok=True)
    given = ["--exit"] * (name == "record consume") + list(ARGUMENTS.get(name, ()))
    found = []
    for parameter in command_at(name).params:
        if parameter.name in ("bootstrap", "profile") or getattr(parameter, "is_flag", False):
            continue
        for value in values:
            typed = [f"{parameter.opts[-1]}={value}", *given]
            if isinstance(parameter, click.Argument):
                typed = [*given[:-1], "--", value] if name == "record consume" else ["--", value]
            result = CliRunner().invoke(
                main, [*name.split(), "-b", daemon.bootstrap, "--timeout", "5", *typed], input=b""
            )
            fails = result.exception is not None and not isinstance(result.exception, SystemExit)
            if fails or result.exit_code not in (0, 1, 2):
                found.append((parameter.opts[-1], value, result.exception))
    return found
