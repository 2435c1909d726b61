"""Whose spool it is: the driver that made it, and whether that one still runs.

A driver that is killed leaves what its tasks had encoded, and its query may never start again. So each spool says who
made it, and the next driver that makes one beside it removes those of the dead. Owns: that file, and the removal. Does
not own: the spool (`spool`). Invariant: a spool is removed only if its driver was on this machine, since the
machine's last start, and no process with its id and its start is there any more.

Which process is the driver: the JVM above a Python process of Spark's, or the program that calls Spark.
"""

import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

_OWNER = "owner"
_JVM = "java"
_PROC = Path("/proc")


def claim(directory: str) -> None:
    """Note in a spool that it is this driver's; nothing where processes cannot be identified (there is no /proc)."""
    with suppress(OSError):
        written = Path(directory, f"{_OWNER}.{uuid4().hex}")
        written.write_text(json.dumps(_driver()))
        written.replace(Path(directory, _OWNER))


def remove_those_of_the_dead(parent: Path, kept: str) -> None:
    """Remove the spools in this directory whose drivers are dead, but not the one that is called `kept`."""
    with suppress(OSError):
        machine = _machine()
        for spool in [each for each in parent.iterdir() if each.name != kept]:
            with suppress(OSError, ValueError, LookupError, TypeError):
                owner = json.loads(Path(spool, _OWNER).read_text())
                if owner["machine"] == machine and _started(owner["process"]) != owner["started"]:
                    rmtree(spool, ignore_errors=True)


def _driver() -> dict[str, Any]:
    own = process = os.getpid()
    while process > 1 and _name(process) != _JVM:
        process = _parent(process)
    process = process if process > 1 else own
    return {"machine": _machine(), "process": process, "started": _started(process)}


def _machine() -> str:
    """This machine since its last start: ids of processes are its own."""
    return f"{socket.gethostname()} {(_PROC / 'sys/kernel/random/boot_id').read_text().strip()}"


def _started(process: int) -> str | None:
    """When a process was started, as the kernel counts; None if there is none."""
    try:
        return _stat(process)[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def _parent(process: int) -> int:
    return int(_stat(process)[1])


def _name(process: int) -> str:
    return (_PROC / str(process) / "comm").read_text().strip()


def _stat(process: int) -> list[str]:
    """The fields behind the name, which may have spaces: state, parent, ..., start (proc(5))."""
    return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
