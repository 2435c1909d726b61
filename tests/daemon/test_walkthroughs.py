"""The pages to type along with, docs/tutorial.md and docs/operations.md, in one shell from their first command to their
last: each prints what the page says below it."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

_DOCS = Path(__file__).parent.parent.parent / "docs"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PORT, _BETWEEN = "9092", "\x1e"


class Step(NamedTuple):
    command: str
    printed: str


def steps_of(page: str) -> list[Step]:
    """The commands but the installation, each with what is printed; a file to save becomes a command that saves it."""
    found: list[Step] = []
    for kind, title, text in _BLOCK.findall((_DOCS / page).read_text(encoding="utf-8")):
        if kind == "text":
            found[-1] = found[-1]._replace(printed=text)
        elif kind == "python":
            found.append(Step(f"cat > {title} <<'END'\n{text}END\n", ""))
        elif "pip install" not in text:
            found.append(Step(text, ""))
    return found


@pytest.fixture
def free_port() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return str(bound.getsockname()[1])


@pytest.mark.parametrize("page", ["tutorial.md", "operations.md"])
def test_each_command_prints_what_the_page_says(page: str, tmp_path: Path, free_port: str) -> None:
    (tmp_path / "bin").mkdir()
    for name, arguments in (("oncelog", "-P -m oncelog"), ("python", "")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{free_port}",
        "ONCELOG_BOOTSTRAP": f"127.0.0.1:{free_port}",
    }
    steps = steps_of(page)
    script = "".join(f"{step.command}printf '{_BETWEEN}'\n" for step in steps).replace(_PORT, free_port)
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            stdout, stderr = shell.communicate(timeout=50)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # and the brokers that it started
    printed = stdout.replace(free_port, _PORT).split(_BETWEEN)
    assert [Step(step.command, each) for step, each in zip(steps, printed, strict=False)] == steps, stderr
    assert (len(printed), shell.returncode) == (len(steps) + 1, 0), stderr
