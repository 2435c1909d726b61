"""A contestant that runs: a process in a directory of its own.

Owns: its start and end, and what Linux counts about it. Time is on the monotonic clock, processor time in ticks of
10 ms (/proc/PID/stat), all threads of the process together.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from bench.peers.contestants import Contestant
from oncelog.health import NotHealthy, check_health

_START_S = 60.0
_PAUSE_S = 0.005
_STOP_S = 10.0
_SYNC = re.compile(rb"^\d+ +(?:fsync|fdatasync|msync|sync_file_range|syncfs|sync)\(", re.MULTILINE)
_STRACE = "strace -D -f -qq --seccomp-bpf -e signal=none -e trace=fsync,fdatasync,msync,sync_file_range,syncfs,sync -o"


class BrokerFailed(Exception):
    """It ended, or did not respond in time; the message says which."""


class Broker:
    """Starts in the constructor, which returns at the first answer. `counts_syncs` runs it under strace."""

    def __init__(self, contestant: Contestant, directory: Path, *, counts_syncs: bool = False) -> None:
        directory.mkdir(parents=True)
        self.contestant = contestant
        self._directory = directory
        self._syncs = directory / "syncs" if counts_syncs else None
        launch = contestant.launch(directory)
        self._launch = launch
        tracing = [*_STRACE.split(), str(self._syncs)] if self._syncs is not None else []
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        started_s = time.monotonic()
        with (directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*tracing, *launch.command],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait(started_s + _START_S)
        except BaseException:
            self.stop()
            raise
        self.start_ms = (time.monotonic() - started_s) * 1000
        """From the start of the process to the answer to an ApiVersions request."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._launch.port}"

    @property
    def over_tls(self) -> dict[str, str]:
        """The settings of librdkafka that lead to its other listener."""
        return {
            "bootstrap.servers": f"localhost:{self._launch.tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": self._launch.authority_path,
        }

    def _wait(self, until_s: float) -> None:
        while True:
            self.check()
            try:
                check_health("127.0.0.1", self._launch.port, 5.0)
                return
            except NotHealthy:
                if time.monotonic() > until_s:
                    raise BrokerFailed(f"no answer within {_START_S:.0f} s of its start") from None
            time.sleep(_PAUSE_S)

    def check(self) -> None:
        """Raises BrokerFailed if the process has ended."""
        code = self._process.poll()
        if code is not None:
            written = (self._directory / "output").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise BrokerFailed(f"the broker ended with code {code}: {''.join(written[-1:])[:160]}")

    def cpu_s(self) -> float:
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        return int(self._proc("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _proc(self, name: str) -> str:
        self.check()
        return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="utf-8")

    def sync_count(self) -> int:
        """Calls so far that make a file durable: fsync, fdatasync and their like; 0 if they are not counted."""
        return len(_SYNC.findall(self._syncs.read_bytes())) if self._syncs is not None else 0

    def stop(self) -> None:
        """A clean stop if it is quick, and its files are removed."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)
        shutil.rmtree(self._directory, ignore_errors=True)
