"""What a type checker says of programs that use oncelog (mypy comes with `make check`)."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def checked(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.timeout(300)
def test_a_public_name_is_typed_and_a_misspelt_one_is_an_error(tmp_path: Path) -> None:
    said = checked("from oncelog import Prodcer, Producer, Record\n\nreveal_type(Producer)\n", tmp_path)
    assert 'has no attribute "Prodcer"; maybe "Producer"?' in said
    assert "oncelog.client.producer.Producer" in said
    assert "Found 1 error" in said
