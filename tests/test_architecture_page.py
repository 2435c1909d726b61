"""docs/understand/architecture.md has the state diagrams of the code."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_generated_part_of_the_page_is_up_to_date() -> None:
    spec = spec_from_file_location("update_architecture", ROOT / "tools" / "update_architecture.py")
    assert spec is not None and spec.loader is not None
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "understand" / "architecture.md").read_text(encoding="utf-8")
    assert tool.updated(page) == page, "run python tools/update_architecture.py"
