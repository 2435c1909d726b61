"""The processes of `oncelog demo outbox` that are killed: the relay, and the two consumers.

Owns: their commands, their end. Invariant: when the block of a program ends, its process has ended.
"""

import subprocess
import sys
from pathlib import Path

from oncelog.tools.demo.daemon import DemoFailed


class Program:
    """A module as a process; what it prints is added to a file."""

    def __init__(self, name: str, directory: Path, *arguments: str) -> None:
        self.name = name
        self._output = directory / f"{name}.log"
        self._command = [sys.executable, "-P", "-m", *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    def __enter__(self) -> "Program":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._output.open("ab") as out:
            self._begin = out.tell()
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def kill(self) -> None:
        """Kill it, like kill -9."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def output(self) -> str:
        """Return what it has printed since it was started. Raises DemoFailed if it has ended by itself."""
        text = self._output.read_bytes()[self._begin :].decode(errors="replace").strip()
        if self._process is not None and (code := self._process.poll()) is not None:
            raise DemoFailed(f"the {self.name} has ended with {code}: {text.rpartition(chr(10))[2]}")
        return text
