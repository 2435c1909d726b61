"""The pages about adding an API and a setting name what there is."""

import ast
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.kafka_names import UNNEEDED

ROOT = Path(__file__).parent.parent
FILE = re.compile(r"\b((?:oncelog|tests|tools)/[\w/]+(?:\.py)?)\b")
OF_FILE = re.compile(r"`(\w+)` (?:of|in)\s+`((?:oncelog|tests|tools)/[\w/.]+\.py)`")
BOTH = ("add-an-api.md", "add-a-setting.md")


def page(name: str) -> str:
    (path,) = (ROOT / "docs").rglob(name)
    return path.read_text(encoding="utf-8")


def names_in(path: str) -> set[str]:
    """Return the names that a module defines at its top."""
    names = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


@pytest.mark.parametrize("name", BOTH)
def test_every_file_and_every_table_of_it_exists(name: str) -> None:
    text = page(name)
    assert [each for each in FILE.findall(text) if "NAME" not in each and not (ROOT / each).exists()] == []
    tables = OF_FILE.findall(text)
    assert tables
    assert [(table, path) for table, path in tables if table not in names_in(path)] == []


def test_every_field_of_a_descriptor_is_explained_in_order_and_those_without_default_say_so() -> None:
    (table,) = re.findall(r"\| field \| default \| what to give \|\n\|.*\n((?:\|.*\n)+)", page("add-an-api.md"))
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]
    explained = [(name, bool(row[1])) for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    described = [(each.name, each.default is not MISSING) for each in fields(Api)]
    assert explained == described


def test_a_setting_is_one_that_has_an_effect_or_one_that_has_none() -> None:
    """Step 5 of the page: no setting is in both tables."""
    assert BROKER_KEYS.keys() & UNNEEDED == set()
