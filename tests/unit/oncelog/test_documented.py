"""Every public name of `oncelog`, and of the modules beside it, says how it is used."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import oncelog
from oncelog import client, faults, health, share_groups, sync, witness

MODULES = (oncelog, client, sync, faults, health, witness, share_groups)


def _public(module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    return list(names) if names is not None else ["NotHealthy", "check_health"]


def _own_docstring(kind: type) -> str:
    """The one that was written: dataclasses and named tuples make one of their fields when there is none."""
    text = (kind.__doc__ or "") if "__doc__" in kind.__dict__ else ""
    return "" if text.startswith(f"{kind.__name__}(") else text


def _undocumented(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield from [] if value.__doc__ else [name]
    elif inspect.isclass(value):
        yield from [] if _own_docstring(value) else [name]
        for member, attribute in vars(value).items():
            if isinstance(attribute, classmethod | staticmethod):
                attribute = attribute.__func__
            is_method = inspect.isfunction(attribute) or isinstance(attribute, property)
            if is_method and not member.startswith("_") and not attribute.__doc__:
                yield f"{name}.{member}"


@pytest.mark.interpreted  # mypyc drops the docstrings of classes
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_class_method_and_function_has_a_docstring(module: ModuleType) -> None:
    found = [each for name in _public(module) for each in _undocumented(name, getattr(module, name))]
    assert not found


def test_every_public_type_alias_is_documented_where_it_is_defined() -> None:
    documented = set()
    for path in Path(client.__file__).parent.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, after in pairwise(body):
            if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr) and _is_text(after.value):
                documented.add(ast.unparse(statement.targets[0]))
    aliases = {name for name in client.__all__ if not inspect.isclass(getattr(client, name))}
    assert aliases and not aliases - documented


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_an_undocumented_class_method_or_generated_docstring_is_found() -> None:
    class Example(oncelog.TopicPartition):
        def method(self) -> None: ...

    assert list(_undocumented("Example", Example)) == ["Example", "Example.method"]
    assert not _own_docstring(type("Example", (), {"__doc__": "Example(a: int)"}))
