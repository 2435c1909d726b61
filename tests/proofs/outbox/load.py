"""Commits at a steady rate, for `numbers`: when each was begun is written to a file.

python -m tests.proofs.outbox.load DSN TOPIC RATE SECONDS FILE
"""

import sys
import threading
import time
from pathlib import Path

from tests.proofs.outbox.ledger import connected

_WRITERS = 4


def write(dsn: str, topic: str, first: int, interval_s: float, end_s: float, times: list[tuple[int, float]]) -> None:
    next_s = time.monotonic() + interval_s * first / _WRITERS
    pause = threading.Event()
    number = first
    with connected(dsn) as connection:
        while next_s < end_s:
            pause.wait(max(0.0, next_s - time.monotonic()))
            next_s += interval_s
            connection.execute(f"begin; select oncelog.produce('{topic}', 'k{number % 100}', '{number}'::text)")
            times.append((number, time.monotonic()))  # before the COMMIT is sent
            connection.execute("commit")
            number += _WRITERS


def main() -> None:
    dsn, topic, rate, seconds, file = sys.argv[1:]
    times: list[tuple[int, float]] = []
    end_s = time.monotonic() + float(seconds)
    writers = [
        threading.Thread(target=write, args=(dsn, topic, number, _WRITERS / float(rate), end_s, times))
        for number in range(_WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    Path(file).write_text("\n".join(f"{number} {begun_s!r}" for number, begun_s in times))


if __name__ == "__main__":
    main()
