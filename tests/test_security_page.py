"""docs/operate/security.md and rights.md: the bugs of others have the tests that are named, and the steps print
what they say."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.pages.known_bugs import KNOWN_BUGS
from tests.support.pages.walkthrough import steps_of, walk

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).resolve().parent


def _source(test: str) -> str:
    """Return the source of a test, with its decorators; empty if there is none."""
    file, _, name = test.partition("::")
    text = (_TESTS / file).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return ""


def test_every_known_bug_has_tests_that_name_it() -> None:
    for bug in KNOWN_BUGS:
        sources = [_source(test) for test in bug.tests]
        assert all(sources), bug.tests
        assert [name for name in bug.names if name not in " ".join(sources)] == []


def test_every_bug_that_a_test_names_is_in_the_table() -> None:
    listed = {name for bug in KNOWN_BUGS for name in bug.names}
    named = {
        name for path in _TESTS.rglob("*.py") for name in re.findall(r"CVE-\d+-\d+", path.read_text(encoding="utf-8"))
    }
    assert named - listed == set()


def test_the_steps_of_authorization_print_what_the_page_says(tmp_path: Path) -> None:
    walk(steps_of("operate/rights.md", "Step by step"), tmp_path)
