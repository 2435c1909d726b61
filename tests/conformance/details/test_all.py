"""No detail goes without its test."""

import re
from pathlib import Path

DETAILS = 37


def test_every_detail_has_a_test_of_its_own() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    numbers = {int(number) for number in re.findall(r"^def test_detail_(\d\d)_", text, re.MULTILINE)}
    assert numbers == set(range(1, DETAILS + 1))
