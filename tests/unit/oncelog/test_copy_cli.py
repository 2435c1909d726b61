"""`oncelog copy` as a command: what it prints of names that it did not choose, and what it cannot be asked for."""

import asyncio
import os
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client.admin.descriptions import TopicDescription
from oncelog.client.values.errors import KafkaError
from oncelog.tools.copy import cli
from oncelog.tools.copy.copying import Copier, Outcome
from oncelog.tools.copy.groups import GroupCopy
from oncelog.tools.copy.reporting import Reporter
from oncelog.tools.copy.state import CopyState
from oncelog.tools.copy.survey import CopyError, Survey, TopicPlan
from tests.support.patience import PATIENCE_S
from tests.support.requests.hostile import HOSTILE, SURROGATE, require_harmless

ADDRESSES = ("localhost:1", "localhost:2")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["copy", *arguments])


def require_shown(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    require_harmless(result.output)
    assert result.output


@pytest.mark.parametrize("name", [*HOSTILE.values(), SURROGATE], ids=[*HOSTILE, "lone surrogate"])
def test_names_of_topics_and_groups_and_foreign_sentences_stay_in_their_lines(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    topic = TopicDescription(name, UUID(int=1), (), is_internal=False)
    plan = TopicPlan(topic, None, None, {name: name}, False, {}, {}, name)
    found = Survey(name, name, CopyState(), False, None, (plan,), {})

    async def preview(_: Copier, *, ends: bool) -> Survey:
        return found

    async def copied(copier: Copier, **_: bool) -> Outcome:
        groups = [GroupCopy(name, 1, 1, name)]
        copier._watcher.on_survey(found)
        copier._watcher.on_trouble(name)
        copier._watcher.on_groups(groups)
        return Outcome(groups, 0.5)

    def failing(error: Exception) -> Any:
        async def failed(*_: Any, **__: Any) -> Outcome:
            raise error

        return failed

    monkeypatch.setattr(cli, "probe", lambda *_: 1)
    monkeypatch.setattr(Copier, "preview", preview)
    monkeypatch.setattr(Copier, "run", copied)
    for options in ((), ("--json",), ("--dry-run",), ("--dry-run", "--json")):
        require_shown(run(*ADDRESSES, *options))
    require_shown(run("--topics", name, "--", *ADDRESSES))
    require_shown(run("--", name, ADDRESSES[1]))
    for error in (CopyError(name), KafkaError(name)):
        monkeypatch.setattr(Copier, "run", failing(error))
        require_shown(result := run(*ADDRESSES))
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


async def test_one_line_ends_a_wait_that_began_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure between the question and the answer asks once more; the answer counts."""
    lines: queue.Queue[bytes] = queue.Queue()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read=lambda _: lines.get())))
    reporter = Reporter(target=ADDRESSES[1], as_json=True)
    first = asyncio.ensure_future(reporter.until_stopped())
    await asyncio.wait((first,), timeout=0.01)
    first.cancel()
    second = asyncio.ensure_future(reporter.until_stopped())
    lines.put(b"\n")
    await asyncio.wait_for(second, PATIENCE_S)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*ADDRESSES, "--once", "--switch"), "choose one: --once or --switch."),
        (("--topics", "(", *ADDRESSES), "'(' is not a regular expression"),
        (("localhost", ADDRESSES[1]), "SOURCE: there is no profile 'localhost' in"),
        ((ADDRESSES[0], "localhost:x"), "TARGET: 'localhost:x' is not of the form HOST:PORT"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setenv("ONCELOG_CONFIG", os.devnull)
    monkeypatch.setattr(cli, "probe", lambda *_: 1)
    result = run(*arguments)
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr


def test_a_side_may_be_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.staging]\nbootstrap = "localhost:7"\n')
    monkeypatch.setenv("ONCELOG_CONFIG", str(config))
    asked = []
    monkeypatch.setattr(cli, "probe", lambda chosen, _: asked.append(chosen.bootstrap))

    async def preview(_: Copier, *, ends: bool) -> Survey:
        return Survey("a", "b", CopyState(), False, None, (), {})

    monkeypatch.setattr(Copier, "preview", preview)
    result = run("staging", ADDRESSES[1], "--dry-run")
    assert asked == ["localhost:7", ADDRESSES[1]]
    assert result.stdout.startswith("There is no topic to copy yet.")
