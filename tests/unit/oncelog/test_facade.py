"""`import oncelog` finds oncelog's own packages, or says what stands in their way."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["client", "protocol", "broker"])
@pytest.mark.parametrize("form", ["module", "package"])
def test_a_file_of_the_users_with_the_name_of_ours_is_named(tmp_path: Path, package: str, form: str) -> None:
    own = tmp_path / f"{package}.py" if form == "module" else tmp_path / package / "__init__.py"
    own.parent.mkdir(exist_ok=True)
    own.write_text("")
    (tmp_path / "program.py").write_text("import oncelog\n")
    result = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1
    assert str(own) in result.stderr
    assert "rename that file" in result.stderr


def test_a_folder_of_other_things_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import oncelog\n")
    result = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_daemon_reads_no_client(tmp_path: Path) -> None:
    code = "import sys, oncelog.cli; print('client' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert result.stdout == "False\n"
