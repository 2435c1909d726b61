"""Daemons that are forked from a process which has imported the broker already: a start without 0.1 s of imports.

What a start itself does, and what it loads, is tested with processes that are started as a user starts them
(`tests/daemon/test_start.py`, `test_serve.py`). Beside each daemon a process waits for its exit code.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_ROOT = Path(__file__).parent.parent.parent.parent
_LOADED = (
    "oncelog.broker.daemon.app",
    "oncelog.broker.daemon.cli",
    "oncelog.broker.coordinator.group.engine.shard_life",
    "oncelog.broker.coordinator.transaction.shard_life",
    "structlog",
    *(
        f"oncelog.broker.handlers.{api}"
        for api in (
            "api_versions",
            "create_topics",
            "fetch",
            "find_coordinator",
            "init_producer_id",
            "list_offsets",
            "metadata",
            "produce",
        )
    ),
)
"""Modules that nearly every daemon of a test needs: for its start, and for what clients ask first."""


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use: signals, the exit code, standard output as lines of text."""

    def __init__(self, arguments: list[str], stderr: Path, environ: dict[str, str]) -> None:
        """Runs `oncelog.broker` with these arguments; standard error is added to the file."""
        read_stdout, stdout = os.pipe()
        self._exit, exit_code = os.pipe()
        request = {"arguments": arguments, "stderr": str(stderr), "environ": environ, "directory": os.getcwd()}
        forks = _forks()
        body = json.dumps(request).encode()
        socket.send_fds(forks, [len(body).to_bytes(4)], [stdout, exit_code])
        forks.sendall(body)
        os.close(stdout)
        os.close(exit_code)
        self.args = arguments
        self.pid = int.from_bytes(forks.recv(4, socket.MSG_WAITALL))
        if not self.pid:
            raise RuntimeError("the process that forks daemons has ended")
        self.stdout = os.fdopen(read_stdout, encoding="utf-8")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None and select.select([self._exit], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired after so many seconds."""
        if self.returncode is None:
            if not select.select([self._exit], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        return self.returncode or 0

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        with self.stdout:
            said = self.stdout.read()
        self.wait(timeout)
        return said, None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _end(self) -> None:
        self.returncode = int(os.read(self._exit, 32))
        os.close(self._exit)


@cache
def _forks() -> socket.socket:
    """A socket to the process that forks. There is one for each worker of pytest, and it ends with the worker."""
    ours, theirs = socket.socketpair()
    with theirs:
        # Not waited for: it outlives every test.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.processes.forked", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            cwd=_ROOT,
        )
    process.returncode = 0  # or its destructor warns
    return ours


def _serve(requests: socket.socket) -> None:
    for module in _LOADED:
        import_module(module)
    gc.freeze()
    while True:
        size, descriptors, _, _ = socket.recv_fds(requests, 4, 2)
        if not size:
            return
        body = requests.recv(int.from_bytes(size), socket.MSG_WAITALL)
        if os.fork() == 0:
            _watch(json.loads(body), requests, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: dict[str, object], requests: socket.socket, stdout: int, exit_code: int) -> NoReturn:
    """Forks the daemon, and sends its process id and, in the end, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        requests.close()
        os.close(exit_code)
        _run(stdout, **request)  # type: ignore[arg-type]
    requests.sendall(pid.to_bytes(4))
    requests.close()
    os.close(stdout)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # those are for the daemon
    _, status = os.waitpid(pid, 0)
    try:
        os.write(exit_code, str(os.waitstatus_to_exitcode(status)).encode())
    finally:
        os._exit(0)


def _run(stdout: int, arguments: list[str], stderr: str, environ: dict[str, str], directory: str) -> NoReturn:
    from oncelog.broker.daemon.cli import main

    code: object = 1
    try:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environ)
        main(arguments, prog_name="python -m oncelog.broker")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps each `_watch`: nothing waits for it
    _serve(socket.socket(fileno=int(sys.argv[1])))
