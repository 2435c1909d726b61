"""A page to type along with, in one shell from its first command to its last.

Owns: reading the blocks of a page, the shell. Does not own: which pages, what else they need.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.server import free_neighbours
from tests.support.patience import PATIENCE_S

_DOCS = Path(__file__).parent.parent.parent.parent / "docs"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_FIRST_PORT, _PORTS, _BETWEEN = 9092, 4, "\x1e"


class Step(NamedTuple):
    command: str
    printed: str


def steps_of(page: str, section: str = "") -> list[Step]:
    """The commands but the installation, each with what is printed; a file to save becomes a command that saves it.
    Of a `section` only those from its heading to the next one."""
    found: list[Step] = []
    whole = (_DOCS / page).read_text(encoding="utf-8")
    wanted = whole.partition(f"# {section}\n")[2].partition("\n#")[0] if section else whole
    for kind, title, text in _BLOCK.findall(wanted):
        if kind == "text":
            found[-1] = found[-1]._replace(printed=text)
        elif title:
            found.append(Step(f"cat > {title} <<'END'\n{text}END\n", ""))
        elif "pip install" not in text:
            found.append(Step(text, ""))
    return found


def walk(
    steps: list[Step],
    directory: Path,
    programs: Mapping[str, str] | None = None,
    *,
    timeout_s: float = PATIENCE_S,
    has_listeners: bool = False,
) -> None:
    """Type each command, and compare what it prints. `programs` are more shell scripts, by name; `has_listeners`: the
    page sets them."""
    port = free_neighbours(_PORTS)
    (directory / "bin").mkdir()
    ours = {"oncelog": f'exec "{sys.executable}" -P -m oncelog "$@"', "python": f'exec "{sys.executable}" "$@"'}
    for name, script in {**ours, **(programs or {})}.items():
        program = directory / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        **({} if has_listeners else {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"}),
        "ONCELOG_BOOTSTRAP": f"127.0.0.1:{port}",
    }
    script = "".join(f"{step.command}printf '{_BETWEEN}'\n" for step in steps)
    with subprocess.Popen(
        ["bash", "-c", _with_ports(script, _FIRST_PORT, port)],
        cwd=directory,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            stdout, stderr = shell.communicate(timeout=timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # and the brokers that it started
    printed = _with_ports(stdout, port, _FIRST_PORT).split(_BETWEEN)
    assert [Step(step.command, each) for step, each in zip(steps, printed, strict=False)] == steps, stderr
    assert (len(printed), shell.returncode) == (len(steps) + 1, 0), stderr


def _with_ports(text: str, old: int, new: int) -> str:
    for number in range(_PORTS):
        text = text.replace(str(old + number), str(new + number))
    return text
