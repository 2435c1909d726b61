"""Relays as processes: the product's command, the same that kills itself at a step, and those of other designs."""

import subprocess
import sys

from tests.support.processes.programs import ROOT, Program

NAIVE, AT_LEAST_ONCE = "a poller by id", "an at-least-once relay"
CARRIERS = ("wal", "table", "poll")
ROUND = "round"
"""No relay: a broker whose records are in the same database takes the rows itself."""
TWO_NODES = "round, two nodes"
ROUNDS = (ROUND, TWO_NODES)
_RUNS = "Relaying"
_OTHERS = {NAIVE: "naive_poller", AT_LEAST_ONCE: "at_least_once"}


class Relay(Program):
    def wait_running(self) -> bool:
        """Returns when it relays: True; or has ended: False."""
        return self.wait_saying(_RUNS)


def command_of(kind: str, dsn: str, name: str, bootstrap: str, *options: str, dies: tuple[str, ...] = ()) -> list[str]:
    """`kind`: a carrier, or the name of another design. With `dies` (`dying`'s arguments) it kills itself."""
    python = [sys.executable, "-P", "-m"] if not (dies or kind in _OTHERS) else [sys.executable, "-m"]
    if kind in _OTHERS:
        return [*python, f"tests.proofs.outbox.{_OTHERS[kind]}", dsn, name, bootstrap]
    start = ["tests.proofs.outbox.dying", *dies] if dies else ["oncelog"]
    return [*python, *start, "outbox", "run", dsn, "--name", name, "-b", bootstrap, *options]


def install(dsn: str, name: str, carrier: str, *options: str) -> None:
    command = [sys.executable, "-m", "oncelog", "outbox", "install", dsn, "--name", name, "--carrier", carrier]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
