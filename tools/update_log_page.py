"""Runs the commands of docs/understand/log.md again, and writes their output below them; draws docs/images/log_map.svg.

    PYTHONPATH=. python tools/update_log_page.py

A test holds the page and the image to this.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.log_page import make_data

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "understand" / "log.md"
IMAGE = ROOT / "docs" / "images" / "log_map.svg"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_ONCELOG = f'oncelog() {{ "{sys.executable}" -P -m oncelog "$@"; }}; export LC_ALL=C; '
_IMAGE_COMMAND = "oncelog log map data/orders-0 --width 80 --svg log_map.svg"


def updated(page: str) -> tuple[str, str]:
    """The page and the image as they should be."""
    with TemporaryDirectory() as directory:
        make_data(Path(directory, "data"))
        page = BLOCK.sub(lambda found: run_block(found[0], directory), page)
        _run(_IMAGE_COMMAND, directory)
        return page, Path(directory, "log_map.svg").read_text()


def run_block(block: str, directory: str, **environment: str) -> str:
    """The commands of a block, each with what it prints."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_run(command[2:], directory, **environment)}" for command in commands)


def _run(command: str, directory: str, **environment: str) -> str:
    run = subprocess.run(
        ["bash", "-c", _ONCELOG + command],
        check=False,  # a command may fail, and the page shows that
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "TERM": "dumb", **environment},
    )
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())


def main() -> None:
    page, image = updated(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
    IMAGE.write_text(image, encoding="utf-8")


if __name__ == "__main__":
    main()
