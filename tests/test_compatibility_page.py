"""docs/compare/compatibility.md says what the API table says, and the API table what Kafka's does."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey

ROOT = Path(__file__).resolve().parent.parent


def load_tool() -> Any:
    spec = spec_from_file_location("update_compatibility", ROOT / "tools" / "update_compatibility.py")
    if spec is None or spec.loader is None:
        raise AssertionError("tools/update_compatibility.py cannot be loaded")
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


TOOL = load_tool()


def test_the_page_is_what_the_code_says() -> None:
    page = TOOL.PAGE.read_text(encoding="utf-8")
    assert TOOL.updated(page) == page, "run python tools/update_compatibility.py"


def test_every_range_is_kafkas() -> None:
    ours = {key: (api.minimum, api.maximum) for key, api in API_TABLE.items()}
    kafkas = {key: versions for key, versions in TOOL.KAFKA.items() if ApiKey(key) not in TOOL.NOT_SERVED}
    assert ours == kafkas
