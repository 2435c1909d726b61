"""docs/understand/log.md shows what its commands print today."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_log_page", ROOT / "tools" / "update_log_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_and_image_are_what_the_commands_give() -> None:
    loaded = tool()
    page, image = loaded.updated(loaded.PAGE.read_text(encoding="utf-8"))
    assert page == loaded.PAGE.read_text(encoding="utf-8"), "run PYTHONPATH=. python tools/update_log_page.py"
    assert image == loaded.IMAGE.read_text(encoding="utf-8"), "run PYTHONPATH=. python tools/update_log_page.py"
