"""The one page of differences from Apache Kafka that `oncelog.compat` chooses between."""

from dataclasses import fields
from pathlib import Path

from oncelog import broker
from oncelog.broker.apis.compatibility import COMPATIBILITIES, KAFKA, OURS, Compatibility
from tests.fakes.broker import VirtualBroker


def test_each_field_is_a_difference() -> None:
    for field in fields(Compatibility):
        assert getattr(OURS, field.name) is not getattr(KAFKA, field.name), field.name


def test_a_broker_has_the_value_that_its_setting_names() -> None:
    assert VirtualBroker().broker.compatibility is OURS
    for name, value in COMPATIBILITIES.items():
        assert VirtualBroker(f"oncelog.compat={name}").broker.compatibility is value


def test_nothing_else_judges_by_the_setting() -> None:
    """A difference that is decided elsewhere would be missing on that page."""
    folder = Path(broker.__path__[0])
    asking = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if 'get_str("oncelog.compat")' in path.read_text(encoding="utf-8")
    }
    assert asking == {"assembly/storage.py"}
