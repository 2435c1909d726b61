"""A program that runs beside a test until it is ended, and what it has said."""

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.patience import PATIENCE_S, pause

ROOT = Path(__file__).parent.parent.parent.parent
_LOOK_S = 0.01


@dataclass
class Program:
    """A process that runs; its output is added to `log`."""

    command: list[str]
    log: Path
    process: "subprocess.Popen[bytes]" = field(init=False)
    _from: int = 0

    def __post_init__(self) -> None:
        self._from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, stdin=subprocess.PIPE, cwd=ROOT)

    def wait_saying(self, text: str) -> bool:
        """Returns when it has said this: True; or has ended: False."""
        while text not in self.said():
            if self.process.poll() is not None:
                return text in self.said()
            pause(_LOOK_S)
        return True

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """Returns its exit code."""
        code = self.process.wait(PATIENCE_S)
        if self.process.stdin is not None:
            self.process.stdin.close()
        return code

    def said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")
