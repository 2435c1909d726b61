"""docs/security.md: its table of rights is the one that brokers use, and its steps print what it says."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tests.support.walkthrough import steps_of, walk

_TOOL = Path(__file__).resolve().parent.parent / "tools" / "update_security_page.py"


def _tool() -> Any:
    spec = spec_from_file_location("update_security_page", _TOOL)
    if spec is None or spec.loader is None:
        raise AssertionError("tools/update_security_page.py cannot be loaded")
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_the_table_of_rights_is_the_brokers() -> None:
    tool = _tool()
    page = tool.PAGE.read_text(encoding="utf-8")
    assert tool.updated(page) == page, "run python tools/update_security_page.py"


def test_the_steps_of_authorization_print_what_the_page_says(tmp_path: Path) -> None:
    walk(steps_of("security.md", "Step by step"), tmp_path)
