"""docs/understand/guarantees.md promises nothing without a test: each row names tests that exist. What is not promised,
in docs/understand/limits.md, has a test or a reason."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "understand" / "guarantees.md").read_text(encoding="utf-8")
TESTS = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LIMITS = (ROOT / "docs" / "understand" / "limits.md").read_text(encoding="utf-8")
NOT_PROMISED = LIMITS.partition("\n## Not promised\n")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| (?!-)(.+?) \| (.+) \|$", re.MULTILINE)


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows(text: str) -> list[tuple[str, str]]:
    return [row for row in _ROW.findall(text) if row[0] not in ("guarantee", "not promised")]


def test_every_named_test_exists() -> None:
    named = TESTS.findall(PAGE + LIMITS)
    missing = [f"{path}::{name}" for path, name in named if name not in functions_of(path)]
    assert len(named) > 40 and missing == [], "renamed? then name the test as it is now"


@pytest.mark.parametrize(("guarantee", "shown_by"), rows(PAGE), ids=lambda text: text[:40])
def test_each_guarantee_is_shown_by_tests_and_nothing_else(guarantee: str, shown_by: str) -> None:
    assert TESTS.search(shown_by) and TESTS.sub("", shown_by).strip() == ""


def test_what_is_not_promised_has_a_test_or_a_reason() -> None:
    assert len(rows(NOT_PROMISED)) > 8
    assert [what for what, shown_by in rows(NOT_PROMISED) if len(shown_by) < 20] == []
