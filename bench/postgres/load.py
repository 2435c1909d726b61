"""A broker over PostgreSQL under load for a while, with retention: what becomes of the tables.

Owns: the load, when the tables are looked at. Does not own: what is counted (`database`).
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.page import aligned
from bench.peers.broker import Broker
from bench.peers.contestants import Contestant
from bench.postgres.database import Database
from bench.postgres.run import NAMES, POSTGRES, serve

_SCHEMA = "busy"
_LOOKS = 10
_KEPT_MB = 256
_SETTINGS = {
    "retention.bytes": str(_KEPT_MB << 20),
    "segment.bytes": str(16 << 20),
}
_RATE_MB = 5
_A_BURST = 50
"""How many pieces a second of batches has."""


@dataclass(frozen=True, slots=True)
class Look:
    at_s: float
    produced_mb: float
    wal_mb: float
    tables: dict[str, tuple[int, int, int, int]]
    """As `Database.tables`."""


class _Producers:
    """One sends batches of 1 kB records at a steady rate, another single records of 100 B, each once the one before is
    there."""

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        admin = AdminClient(dict(self._settings))
        for topic in ("batches", "single"):
            admin.create_topics([NewTopic(topic, 1, 1, config=_SETTINGS)])[topic].result(60)
        self._ended = threading.Event()
        self._bytes = {"batches": 0, "single": 0}
        self._threads = [threading.Thread(target=each) for each in (self._batches, self._single)]
        for each in self._threads:
            each.start()

    @property
    def produced_mb(self) -> float:
        return sum(self._bytes.values()) / 1e6

    def _batches(self) -> None:
        producer = Producer({**self._settings, "delivery.report.only.error": True})
        size, piece = 1000, _RATE_MB * 1_000_000 // _A_BURST
        while not self._ended.wait(1 / _A_BURST):
            for _ in range(piece // size):
                producer.produce("batches", bytes(size))
            producer.flush(60)
            self._bytes["batches"] += piece

    def _single(self) -> None:
        producer = Producer({**self._settings, "linger.ms": 0})
        while not self._ended.is_set():
            producer.produce("single", bytes(100))
            producer.flush(60)
            self._bytes["single"] += 100

    def end(self) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()


def run(database: Database, place: Path, seconds: float, progress: Callable[[str, int, int], None]) -> list[Look]:
    """Looks at the tables: before, then at equal times, and once more after a rest."""
    often = ("--override", "log.retention.check.interval.ms=10000")
    launch = serve("--storage", database.dsn, "--schema", _SCHEMA, *often)
    broker = Broker(Contestant(POSTGRES, NAMES[POSTGRES], lambda: "", launch), place / "busy")
    try:
        started_s, first_bytes = time.monotonic(), database.wal_bytes()
        producers = _Producers(broker.bootstrap)

        def look() -> Look:
            wal_mb = (database.wal_bytes() - first_bytes) / 1e6
            return Look(time.monotonic() - started_s, producers.produced_mb, wal_mb, database.tables(_SCHEMA))

        looks = [look()]
        try:
            for number in range(_LOOKS):
                progress("under load", number, _LOOKS)
                time.sleep(seconds / _LOOKS)
                looks.append(look())
        finally:
            producers.end()
        time.sleep(min(90.0, seconds / 2))
        return [*looks, look()]
    finally:
        broker.stop()


def text(looks: Sequence[Look], facts: Sequence[str]) -> str:
    rows = [["minute", "produced, MB", "WAL, MB", "journal, MB", "chunks, MB", "the rest, MB", "dead rows", "vacuums"]]
    for each in looks:
        sizes = {name: size / 1e6 for name, (size, *_) in each.tables.items()}
        journal = sum(size for name, size in sizes.items() if name.startswith("oncelog_journal"))
        chunks = sizes.get("oncelog_chunk", 0.0)
        dead = sum(dead for _, _, dead, _ in each.tables.values())
        vacuums = sum(count for *_, count in each.tables.values())
        numbers = each.produced_mb, each.wal_mb, journal, chunks, sum(sizes.values()) - journal - chunks
        rows.append([f"{each.at_s / 60:.1f}", *(f"{value:,.1f}" for value in numbers), f"{dead:,}", str(vacuums)])
    lines = [
        *(f"- {line}" for line in facts),
        f"- Two topics that keep {_KEPT_MB} MiB each: 1 kB records in batches, {_RATE_MB} MB/s at most; single records",
        "  of 100 B, each once the one before was acknowledged. The last line is after a rest",
    ]
    return "\n".join([*lines, "", aligned(rows), ""])
