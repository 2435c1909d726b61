"""Services written with frameworks over Kafka, in a project of their own, tested with the fixture."""

import subprocess
from pathlib import Path

import pytest

from tests.support.foreign.interop import PLACE, needs
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.interop

_SCENES = Path(__file__).parent / "frameworks" / "services.py"


@pytest.mark.parametrize(
    "scene",
    [
        "test_faststream_answers_each_order_with_an_invoice",
        "test_faust_answers_each_order_with_an_invoice",
        "test_the_stand_in_has_or_refuses_by_name_what_a_kafka_container_has",
    ],
)
def test_services_are_tested_with_the_fixture(scene: str, tmp_path: Path) -> None:
    python = PLACE / "frameworks" / "bin" / "python"
    needs(python)
    (tmp_path / "test_services.py").write_text(_SCENES.read_text())
    command = [python, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", f"test_services.py::{scene}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "1 passed" in done.stdout, done.stdout[-6_000:] + done.stderr[-2_000:]
