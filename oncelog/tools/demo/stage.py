"""A process of a demonstration, which is killed and started again: a broker, a client, a command.

Owns: the command, what the process says, its end. Invariant: when the block of a stage ends, its process has ended.
"""

import subprocess
import sys
from pathlib import Path
from typing import Self


class DemoFailed(Exception):
    """Raised if the experiment could not be run; the message says why."""


class Stage:
    """A module as a process. What it prints is added to `log`; without one, a line is read when it is asked for, and
    errors are shown unless it `is_quiet`."""

    def __init__(self, name: str, *arguments: str, log: Path | None = None, is_quiet: bool = False) -> None:
        self.name = name
        self._command = [sys.executable, "-P", "-m", *arguments]
        self._log = log
        self._stderr = subprocess.DEVNULL if is_quiet else None
        self._process: subprocess.Popen[str] | None = None
        self._begin = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, *more: str) -> None:
        """Start it, with more arguments."""
        command, pipe = [*self._command, *more], subprocess.PIPE
        if self._log is None:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True)
            return
        with self._log.open("ab") as out:
            self._begin = out.tell()
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True)

    def read_line(self) -> str:
        """Wait for a line, and return it; empty once it has ended."""
        output = self._process.stdout if self._process is not None else None
        return output.readline().strip() if output is not None else ""

    def write_line(self) -> None:
        """Send it an empty line."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def wait(self, timeout_s: float) -> None:
        """Wait for its end. Raises DemoFailed when it does not come in time."""
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise DemoFailed(f"the {self.name} did not end within {timeout_s:g} s") from None

    def kill(self) -> None:
        """Kill it, like kill -9."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def output(self) -> str:
        """Return what it has printed to its log since it was started. Raises DemoFailed if it has ended by itself."""
        data = self._log.read_bytes() if self._log is not None else b""
        text = data[self._begin :].decode(errors="replace").strip()
        if self._process is not None and (code := self._process.poll()) is not None:
            raise DemoFailed(f"the {self.name} has ended with {code}: {text.rpartition(chr(10))[2]}")
        return text
