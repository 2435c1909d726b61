"""The processes of this machine, from /proc: which of them to kill."""

import os
from contextlib import suppress
from pathlib import Path

_ESTABLISHED = "01"


def connected_to(port: int, program: str = "") -> list[int]:
    """The other processes that have a connection to that port of loopback; of this program only, if it is named."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[2] == f"0100007F:{port:04X}" and row[3] == _ESTABLISHED}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if program in command(int(process.name))[0] and any(
                os.readlink(each) in sockets for each in (process / "fd").iterdir()
            ):
                found.append(int(process.name))
    return [each for each in found if each != os.getpid()]


def parents() -> dict[int, int]:
    """Each process and its parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def below(roots: set[int]) -> set[int]:
    """The descendants of these processes, without them."""
    parent_of = parents()
    found = set(roots)
    while more := {pid for pid, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found - roots


def command(pid: int) -> list[str]:
    """Program and arguments; one empty word for a process that has ended."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_text().split("\0")
    return [""]
