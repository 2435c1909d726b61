"""Each shell block of README and docs says which test runs it, or why none does; its commands are commands."""

import re
import shlex
from pathlib import Path

import click
import pytest

from oncelog.cli import main
from tools.shell_blocks import PAGES, ROOT, shell_blocks

BLOCKS = [block for path in PAGES for block in shell_blocks(path)]
_FOR_SHELLS = re.compile(r"[|;&<>$`(){}]")
_SHORTEST_REASON = 12


def test_each_block_has_a_mark() -> None:
    """Add `<!-- run: tests/FILE.py -->` above it, and a test there, or `<!-- not run: REASON -->`."""
    assert [f"{block.page}:{block.line}" for block in BLOCKS if not block.test and not block.reason] == []
    assert [block.page for block in BLOCKS if block.reason and len(block.reason) < _SHORTEST_REASON] == []


def test_a_block_without_a_mark_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark of a test holds for all that follow; a reason for the next block alone, and ends the mark before it."""
    monkeypatch.setattr("tools.shell_blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    block = "```bash\nls\n```\n"
    indented = "\n    oncelog serve\n    oncelog topic list    # all\n        --json\n\n    psql\n\n    x = 1\n\n"
    page.write_text(
        f"{indented}{block}<!-- run: a.py -->\n{block}```text\n```\n{block}<!-- not run: why -->\n{block}{block}"
    )
    found = list(shell_blocks(page))
    assert found[0].commands == ["oncelog serve", "oncelog topic list    # all", "    --json"]
    assert words_of(found[0].commands[1]) == ["topic", "list"]
    assert found.pop(1).commands == ["psql"]
    assert [(each.test, each.reason) for each in found] == [
        (None, None),
        (None, None),
        ("a.py", None),
        ("a.py", None),
        (None, "why"),
        (None, None),
    ]


def test_each_test_that_is_named_reads_the_page() -> None:
    """It names the page, or all pages."""
    for page, test in sorted({(block.page, block.test) for block in BLOCKS if block.test}):
        source = (ROOT / test).read_text(encoding="utf-8")
        names = (Path(page).name, "run_by(", "install_lines", "pages.FILES")
        assert any(name in source for name in names), (page, test)


def words_of(command: str) -> list[str] | None:
    """The words of a command of oncelog; None for others, and where a shell would make other words of it."""
    command = command.partition(" #")[0].strip()
    if not command.startswith("oncelog ") or _FOR_SHELLS.search(command):
        return None
    return shlex.split(command)[1:]


def parsed(words: list[str]) -> None:
    """Read the words as the command would, and run nothing. Raises click.UsageError."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command, context = found, click.Context(found, parent=context)
    command.make_parser(context).parse_args(list(words))


def test_each_command_of_a_block_has_the_options_that_it_is_given() -> None:
    """The blocks include those that no test runs."""
    commands = [(block, command) for block in BLOCKS for command in block.commands]
    found = [(block, words) for block, command in commands if (words := words_of(command)) is not None]
    assert len(found) > len(BLOCKS) // 2
    for block, words in found:
        try:
            parsed(words)
        except click.UsageError as error:
            pytest.fail(f"{block.page}:{block.line}: oncelog {' '.join(words)}: {error}")


def test_an_option_that_is_not_there_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["topic", "list", "--no-such-option"])
