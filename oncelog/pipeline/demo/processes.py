"""The processes of the demonstration: the daemon, and children that report events.

Owns: starting, killing, restarting on the same port, and that none outlives the demonstration.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oncelog.pipeline.demo.events import parse

READY = "oncelog ready "
ROOT = Path(__file__).parents[3]
_STOP_S = 20


class ProcessFailed(Exception):
    """Raised if a child ended unexpectedly; the message has the end of its output."""


def environment() -> dict[str, str]:
    """Lets children import our packages from any working directory."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class DaemonProcess:
    """The broker in its own process."""

    def __init__(self, data_dir: Path, log_path: Path) -> None:
        self._data_dir = data_dir
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = "127.0.0.1:0"
        self.kill_count = 0

    def start(self) -> None:
        """Start, on the same address as before; returns when clients are accepted. Raises ProcessFailed."""
        command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--listen", self.bootstrap]
        command += ["--data-dir", str(self._data_dir)]
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), start_new_session=True
            )
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.startswith(READY):
            raise ProcessFailed(f"the daemon did not start: {self._log_path.read_text()[-2000:]}")
        self.bootstrap = line.removeprefix(READY).strip()

    def check_alive(self) -> None:
        """Raises ProcessFailed when it has ended by itself or by a foreign signal."""
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise ProcessFailed(f"the daemon ended with {code}: {self._log_path.read_text()[-3000:]}")

    def kill(self) -> None:
        """Kill the daemon, like kill -9."""
        if self._process is not None:
            self.kill_count += 1
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()


class Child:
    """A Python module that runs in its own process and reports events; `on_event` is called in a thread."""

    def __init__(
        self, module: str, arguments: list[str], log_path: Path, on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        self._module = module
        self._log_path = log_path
        with log_path.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                start_new_session=True,
            )
        self._on_event = on_event
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            event = parse(line)
            if event is not None:
                self._on_event(event)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wake(self, line: str = "") -> None:
        """Write a line to its standard input. A child that has ended gets none."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once all its events were reported. Raises ProcessFailed when it does not end in
        time."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self._module} did not end within {timeout} s") from None
        self._reader.join(timeout)
        return code

    def check(self, timeout: float | None = None) -> None:
        """Wait; raises ProcessFailed unless it ended well."""
        self.wait(timeout)
        self.check_alive()

    def check_alive(self) -> None:
        """Raises ProcessFailed with the end of its output if it failed; a clean exit is ignored."""
        code = self._process.poll()
        if code:
            raise ProcessFailed(f"{self._module} ended with {code}: {self._log_path.read_text()[-2000:]}")

    def end(self) -> None:
        """Kill the whole process group, whatever its state."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
