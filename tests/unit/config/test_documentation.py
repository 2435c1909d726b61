"""docs/start/configuration.md says what the tables say."""

from pathlib import Path

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigKey
from tests.support.tables import rows

_PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "start" / "configuration.md").read_text(encoding="utf-8")
_ROWS = {line.split("|")[1].strip(" `"): line for line in _PAGE.splitlines() if line.startswith("| `")}


@rows("key", BROKER_KEYS.values(), lambda key: str(key.name))
def test_each_setting_is_on_the_page_with_its_default_and_its_text(key: ConfigKey) -> None:
    row = _ROWS[key.name]
    assert key.doc in row
    assert not key.default or f"`{key.default}`" in row


def test_the_page_has_no_setting_that_is_gone() -> None:
    assert _ROWS.keys() - {"name"} == BROKER_KEYS.keys()
