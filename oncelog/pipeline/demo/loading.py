"""The load as a whole: several loaders, a zombie, a duplicate, and a daemon killed in the middle.

Owns: which process runs when, and what happened. Does not own: how a loader works (`load`), the output (`demo`).
"""

import asyncio
import queue
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oncelog.client import Admin, NewTopic, TopicPartition
from oncelog.pipeline.demo.data import Purchase
from oncelog.pipeline.demo.duplicate import DuplicateAnswers, send_twice
from oncelog.pipeline.demo.load import encode, share_of
from oncelog.pipeline.demo.processes import Child, DaemonProcess, ProcessFailed

LOADER_COUNT = 2
_EVENT_TIMEOUT_S = 60.0
_LOOK_S = 0.5


@dataclass(slots=True)
class Troubles:
    """The faults during the load, for the report."""

    aborted_transactions: int = 0
    aborted_records: int = 0
    aborted_cents: int = 0
    zombie_records: int = 0
    zombie_cents: int = 0
    zombie_error: str = ""
    duplicate: DuplicateAnswers | None = None
    kills: int = 0
    kill_at_records: int = 0
    restart_s: float = 0.0
    retries: int = 0
    timeline: list[tuple[float, str]] = field(default_factory=list)

    @property
    def dirty_cents(self) -> int:
        """The sum that is certainly written and certainly aborted. A killed daemon may leave more."""
        return self.aborted_cents + self.zombie_cents


@dataclass(frozen=True, slots=True)
class LoadPlan:
    topic: str
    partitions: int
    batch: int
    abort_every: int
    source_arguments: list[str]
    """The arguments that select a loader process's purchases."""


class Load:
    """Runs the load; `on_progress(committed)` is called with the number of committed purchases."""

    def __init__(
        self,
        daemon: DaemonProcess,
        plan: LoadPlan,
        purchases: list[Purchase],
        work: Path,
        on_progress: Callable[[int], None],
        on_report: Callable[[str], None],
    ) -> None:
        self._daemon = daemon
        self._plan = plan
        self._purchases = purchases
        self._work = work
        self._on_progress = on_progress
        self._on_report = on_report
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._positions: dict[int, int] = {}
        self._children: list[Child] = []
        self._started = time.monotonic()
        shares = [len(share_of(purchases, loader, LOADER_COUNT, plan.partitions)) for loader in range(LOADER_COUNT)]
        # The others may have nothing to do: one customer's purchases are all in one partition.
        self._busiest_loader = shares.index(max(shares))
        self.troubles = Troubles()

    def run(self) -> Troubles:
        """Raises ProcessFailed and the client's errors; no child is left behind."""
        self._started = time.monotonic()
        try:
            asyncio.run(self._prepare())
            self._fence_a_zombie()
            self._run_loaders()
        finally:
            for child in self._children:
                child.end()
        return self.troubles

    def _report(self, text: str) -> None:
        self.troubles.timeline.append((time.monotonic() - self._started, text))
        self._on_report(text)

    async def _prepare(self) -> None:
        plan = self._plan
        async with Admin(self._daemon.bootstrap) as admin:
            await admin.create_topics(NewTopic(plan.topic, plan.partitions))
        from oncelog.protocol.partitioning import partition_for_key

        first = self._purchases[0]
        key = first.customer.encode()
        partition = TopicPartition(plan.topic, partition_for_key(key, plan.partitions))
        answers = await send_twice(self._daemon.bootstrap, partition, key, encode(0, first))
        self.troubles.duplicate = answers
        if answers.first_offset != answers.second_offset:
            raise ProcessFailed(f"the duplicate Produce was written again: {answers}")
        self._report(f"one Produce sent twice: both responses have offset {answers.first_offset}")

    def _child(self, loader: int, *extra: str) -> Child:
        plan = self._plan
        arguments = ["--bootstrap", self._daemon.bootstrap, "--topic", plan.topic]
        arguments += ["--partitions", str(plan.partitions), "--batch", str(plan.batch)]
        arguments += ["--loader", str(loader), "--loaders", str(LOADER_COUNT), *plan.source_arguments, *extra]
        child = Child("oncelog.pipeline.demo.load", arguments, self._work / f"loader-{loader}.log", self._events.put)
        self._children.append(child)
        return child

    def _await(self, wanted: str) -> dict[str, Any]:
        """Return the next event of that name; others are recorded on the way. Raises ProcessFailed."""
        deadline = time.monotonic() + _EVENT_TIMEOUT_S
        while True:
            try:
                event = self._events.get(timeout=_LOOK_S)
            except queue.Empty:
                self._daemon.check_alive()
                for child in self._children:
                    child.check_alive()
                if time.monotonic() > deadline:
                    raise ProcessFailed(f"no {wanted!r} from a loader within {_EVENT_TIMEOUT_S:g} s") from None
                continue
            self._note(event)
            if event["event"] == wanted:
                return event

    def _note(self, event: dict[str, Any]) -> None:
        troubles = self.troubles
        match event["event"]:
            case "aborted":
                troubles.aborted_transactions += 1
                troubles.aborted_records += event["records"]
                troubles.aborted_cents += event["cents"]
            case "start" | "committed":
                self._positions[event["loader"]] = event["position"]
                self._on_progress(sum(self._positions.values()) + 1)
            case "retry":
                troubles.retries += 1
            case "committed-as-zombie":
                raise ProcessFailed("the zombie's commit was not rejected")

    def _fence_a_zombie(self) -> None:
        """Stop a loader in the middle of a transaction, let its successor take over, then let it resume and try to
        commit."""
        loader = self._busiest_loader
        zombie = self._child(loader, "--zombie")
        half = self._await("mid-transaction")
        zombie.send_signal(signal.SIGSTOP)
        self.troubles.zombie_records, self.troubles.zombie_cents = half["records"], half["cents"]
        self._report(f"loader {loader} stopped (SIGSTOP) with {half['records']} records in an open transaction")
        self._child(loader, "--abort-every", str(self._plan.abort_every))
        self._await("committed")
        self._report("its successor has the same transactional.id: the open transaction is aborted, the load continues")
        zombie.send_signal(signal.SIGCONT)
        zombie.wake()
        refused = self._await("refused")
        self.troubles.zombie_error = f"{refused['error']} ({refused['code']})"
        self._report(f"loader {loader} continued (SIGCONT): its commit is rejected with {self.troubles.zombie_error}")
        zombie.wait(_EVENT_TIMEOUT_S)
        self._children.remove(zombie)

    def _run_loaders(self) -> None:
        for loader in set(range(LOADER_COUNT)) - {self._busiest_loader}:
            self._child(loader, "--abort-every", str(self._plan.abort_every))
        half = len(self._purchases) // 2
        while not self._is_complete():
            self._await("committed")
            if not self._daemon.kill_count and sum(self._positions.values()) >= half:
                self._kill_daemon()
        for child in self._children:
            child.check(_EVENT_TIMEOUT_S)

    def _is_complete(self) -> bool:
        return sum(self._positions.values()) + 1 >= len(self._purchases)

    def _kill_daemon(self) -> None:
        committed = sum(self._positions.values()) + 1
        started = time.monotonic()
        self._daemon.kill()
        self._daemon.start()
        self.troubles.restart_s = time.monotonic() - started
        self.troubles.kills += 1
        self.troubles.kill_at_records = committed
        self._report(f"daemon killed (-9) after {committed:,} purchases, restarted in {self.troubles.restart_s:.2f} s")
