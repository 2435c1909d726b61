"""What the proofs have in common (`make outbox-proof`, `postgres-proof`, `spark-proof`): a broker that is killed, what
is said on the way, a file of results, and the page of them.

Each part of a proof appends a line of JSON to its file, so that a long run can be made of short ones; the page is
written from that file and from nothing else.
"""

import json
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol


class Broker(Protocol):
    """A cluster that can be killed."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None:
        """kill -9."""

    def start(self) -> None:
        """Again, on the same port and directory; returns when it answers."""


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def say(what: str, text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {what}: {text}\n")


def append(results: Path, line: object) -> None:
    results.parent.mkdir(exist_ok=True)
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")


def write_lines(results: Path, lines: Iterable[object]) -> None:
    """In the place of all that is there."""
    results.parent.mkdir(exist_ok=True)
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_lines(results: Path) -> list[dict[str, Any]]:
    """None if there is no file yet."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def publish(text: str, page: Path | None) -> None:
    """To the page's file, or to the terminal."""
    if page is None:
        sys.stdout.write(text)
    else:
        page.write_text(text)
