"""The pages about testing: each block of Python with a test in it is a file that passes as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

_ROOT = Path(__file__).parent.parent.parent
_PAGES = ("README.md", "docs/start/testing.md", "docs/start/from-testcontainers.md", "docs/operate/witness.md")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCKS = {
    f"{page} {number}": block
    for page in _PAGES
    for number, block in enumerate(_BLOCK.findall((_ROOT / page).read_text(encoding="utf-8")), 1)
    if "def test_" in block
}


@pytest.mark.parametrize("block", _BLOCKS)
def test_each_block_is_a_test_that_passes(block: str, tmp_path: Path) -> None:
    (tmp_path / "test_block.py").write_text(_BLOCKS[block], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", "test_block.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert re.search(r"[1-9]\d* passed", done.stdout) and done.returncode == 0, done.stdout + done.stderr
