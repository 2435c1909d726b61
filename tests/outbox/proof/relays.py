"""Relays as processes: the product's command, the same that kills itself at a step, and those of other designs."""

import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent.parent
NAIVE, AT_LEAST_ONCE = "a poller by id", "an at-least-once relay"
CARRIERS = ("wal", "table", "poll")
_LOOK_S = 0.01
_RUNS = "Relaying"
_OTHERS = {NAIVE: "naive_poller", AT_LEAST_ONCE: "at_least_once"}


@dataclass
class Relay:
    """A process that runs; its output is added to `log`."""

    command: list[str]
    log: Path
    process: "subprocess.Popen[bytes]" = field(init=False)
    _from: int = 0

    def __post_init__(self) -> None:
        self._from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=ROOT)

    def wait_running(self) -> bool:
        """Returns when it relays: True; or has ended: False."""
        while _RUNS not in self.said():
            if self.process.poll() is not None:
                return False
            pause(_LOOK_S)
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def wait(self) -> int:
        """Returns its exit code."""
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")


def command_of(kind: str, dsn: str, name: str, bootstrap: str, *options: str, dies: tuple[str, ...] = ()) -> list[str]:
    """`kind`: a carrier, or the name of another design. With `dies` (`dying`'s arguments) it kills itself."""
    python = [sys.executable, "-P", "-m"] if not (dies or kind in _OTHERS) else [sys.executable, "-m"]
    if kind in _OTHERS:
        return [*python, f"tests.outbox.proof.{_OTHERS[kind]}", dsn, name, bootstrap]
    start = ["tests.outbox.proof.dying", *dies] if dies else ["oncelog"]
    return [*python, *start, "outbox", "run", dsn, "--name", name, "-b", bootstrap, *options]


def install(dsn: str, name: str, carrier: str, *options: str) -> None:
    command = [sys.executable, "-m", "oncelog", "outbox", "install", dsn, "--name", name, "--carrier", carrier]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)
