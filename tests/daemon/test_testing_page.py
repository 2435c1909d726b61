"""The pages about testing: each block of Python with a test in it is a file that passes as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.sampled(4)

_ROOT = Path(__file__).parent.parent.parent
_PAGES = ("README.md", "docs/start/testing.md", "docs/start/from-testcontainers.md", "docs/operate/witness.md")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", _PAGES)
def test_each_block_is_a_test_that_passes(page: str, tmp_path: Path) -> None:
    blocks = [block for block in _BLOCK.findall((_ROOT / page).read_text(encoding="utf-8")) if "def test_" in block]
    files = [f"test_block_{number}.py" for number in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        (tmp_path / file).write_text(block, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rp", "--strict-markers", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files and all(f"PASSED {file}::" in done.stdout for file in files), done.stdout
