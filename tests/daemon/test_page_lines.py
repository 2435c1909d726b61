"""Short blocks of pages that start a server and look at it: each line does what it says, in a directory of its own."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.kafka.server import free_neighbours, free_ports
from tests.support.patience import PATIENCE_S
from tools.shell_blocks import ShellBlock, run_by

pytestmark = pytest.mark.slow
BLOCKS = run_by("tests/daemon/test_page_lines.py")
_SERVERS = re.compile(r"^(?:[A-Z_]+=\S+ )?oncelog (?:serve|console)\b")
_READY = "oncelog ready"
_PORT = re.compile(r"(?<=:)(\d{4})\b")
_LOOK_S = 0.05


def with_free_ports(block: ShellBlock) -> tuple[list[str], int]:
    """The lines, each port of the page replaced by a free one, and the port of the broker."""
    broker = free_neighbours(4)
    ports = {str(9092 + number): str(broker + number) for number in range(4)}
    others = sorted({port for port in _PORT.findall(block.text) if port not in ports})
    ports |= dict(zip(others, map(str, free_ports(len(others))), strict=True))
    lines = [_PORT.sub(lambda found: ports[found[1]], line) for line in block.commands]
    return lines, broker


@contextmanager
def served(line: str, directory: Path, env: dict[str, str], number: int) -> Iterator[None]:
    """Start what the line starts, in the background, until it says that it is ready."""
    said = directory / f"said-{number}"
    with said.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"] if "=" not in line.split()[0] else ["bash", "-c", f"exec env {line}"],
            cwd=directory,
            env=env,
            stdout=out,
            stderr=out,
        )
    try:
        pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
        while not re.search(rf"{_READY}|http://", said.read_text()):
            assert process.poll() is None and time.monotonic() < deadline, said.read_text()
            pause.wait(_LOOK_S)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.line}")
def test_each_line_works(block: ShellBlock, tmp_path: Path) -> None:
    lines, broker = with_free_ports(block)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "oncelog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m oncelog "$@"\n')
    program.chmod(0o755)
    (tmp_path / "server.properties").write_text("num.partitions=2\n")
    env = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{broker}",
        "ONCELOG_BOOTSTRAP": f"127.0.0.1:{broker}",
    }
    with ExitStack() as servers:
        for number, line in enumerate(lines):
            if "pip install" in line:
                continue  # tests/test_install_lines.py has it
            line = line.partition(" #")[0].strip().removesuffix("&").replace("/var/lib", str(tmp_path))
            if _SERVERS.match(line):
                if "serve" in line:
                    servers.close()  # the one before it has the port
                servers.enter_context(served(line, tmp_path, env, number))
                continue
            run = subprocess.run(
                ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True,
                input="secret-of-alice\n", timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert run.returncode == 0, (line, run.stdout, run.stderr)
