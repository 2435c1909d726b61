"""The shell blocks of README and docs, and the test that runs each, or the reason why none does.

    <!-- run: tests/daemon/test_walkthroughs.py -->     holds for the blocks below it, up to the next mark
    <!-- not run: it needs a Docker engine -->          holds for one block

Owns: finding blocks and marks; indented lines are a block, too, if the first begins with one of `_PROGRAMS`: other
indented text needs no mark. Does not own: running them; what a block prints (`tools.page_commands`, for blocks that
`make pages` writes). Invariant: a block without a mark is an error (`tests/test_shell_blocks.py`), so that no command
stands in a page untried by accident.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_RUN, _NOT_RUN = "run: ", "not run: "
MARK = re.compile(r"<!-- (?:not )?run: .* -->")
_PROGRAMS = (
    r"oncelog|make|pip|uv|python3?|curl|docker|kafka-[\w-]+\.sh|psql|createdb|pg_\w+"
    r"|kill|systemctl|journalctl|openssl|sudo"
)
_PART = re.compile(
    r"^<!-- (?P<mark>(?:not )?run: [^\n]*) -->$"
    r"|^(?P<indent> *)```(?P<language>\w*)(?P<title>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$"
    r"|(?P<indented>^    (?:" + _PROGRAMS + r")(?: [^\n]*)?\n(?:    (?! *```)[^\n]*\n)*)",
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES = ("bash", "console", "sh", "shell")


class ShellBlock(NamedTuple):
    page: str
    """The path from the root of the repository."""
    line: int
    language: str
    text: str
    test: str | None
    """The file of the test that runs it."""
    reason: str | None
    """Why no test runs it."""

    @property
    def commands(self) -> list[str]:
        """Its commands, each on one line."""
        joined = self.text.replace("\\\n", " ")
        if self.language == "console":
            return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
        return [line for line in joined.splitlines() if line.strip()]


def shell_blocks(path: Path) -> Iterator[ShellBlock]:
    text, test, reason = path.read_text(encoding="utf-8"), None, None
    for found in _PART.finditer(text):
        mark = found["mark"]
        if mark is not None:
            is_run = mark.startswith(_RUN)
            test = mark.removeprefix(_RUN) if is_run else None
            reason = None if is_run else mark.removeprefix(_NOT_RUN)
        elif found["indented"] or found["language"] in _LANGUAGES:
            line = text.count("\n", 0, found.start()) + 1
            page = path.relative_to(ROOT).as_posix()
            indented = textwrap.dedent(found["indented"] or "")
            yield ShellBlock(page, line, found["language"] or "", found["text"] or indented, test, reason)
            reason = None


def run_by(test: str) -> list[ShellBlock]:
    """The blocks that a file of tests runs."""
    return [block for path in PAGES for block in shell_blocks(path) if block.test == test]
