"""One class of Kafka's tests in a JVM of its own, and what became of each of its tests."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kafka.classes import class_path
from tests.support.patience import PATIENCE_S

TEST_LIMIT_S = 90
"""For one test: those of Kafka wait 15 or 60 seconds for a condition."""
CLASS_LIMIT_S = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test: with parameters, one for each of their values."""

    test_class: str
    method: str
    invocation: str
    status: str
    """passed, failed, or unfinished."""
    seconds: float
    why: tuple[str, ...]
    notes: tuple[str, ...]
    """Where the stand-in gave something else than the test asked for."""


def run_class(name: str, limit_s: int = CLASS_LIMIT_S, options: Sequence[str] = ()) -> list[Outcome]:
    """Run a class, or one test as `class#method`."""
    with tempfile.TemporaryDirectory(prefix="kafkas-tests-") as scratch:
        lines = Path(scratch, "lines")
        with lines.open("w") as out, Path(scratch, "errors").open("w") as err:
            process = subprocess.Popen(_command(name, scratch, options), stdout=out, stderr=err, cwd=scratch)
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                # By SIGTERM the JVM ends the nodes that it has started.
                process.terminate()
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        said = lines.read_text(encoding="utf-8", errors="replace")
        if not said.strip():
            raise RuntimeError(f"{name} did not run: {Path(scratch, 'errors').read_text(errors='replace')[-2000:]}")
        return outcomes(name.partition("#")[0], said)


def _command(name: str, scratch: str, options: Sequence[str]) -> list[str]:
    return [
        "java",
        "-Xmx700m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Djava.io.tmpdir={scratch}",
        f"-Doncelog.limit={TEST_LIMIT_S} s",
        f"-Doncelog.serve={sys.executable} -m oncelog.broker serve",
        *options,
        "-cp",
        class_path(),
        "oncelog.kafkatests.Run",
        name,
    ]


def outcomes(test_class: str, said: str) -> list[Outcome]:
    """Read the launcher's lines: of a test that began and did not end, the limit cut the end off."""
    found: dict[str, Outcome] = {}
    for line in said.splitlines():
        try:
            each = json.loads(line)
        except ValueError:
            continue  # the last one, when the JVM was ended
        status = "unfinished" if each["status"] == "started" else each["status"]
        if status != "skipped":
            found[each["id"]] = _outcome(test_class, status, each)
    return list(found.values())


def _outcome(test_class: str, status: str, line: dict[str, Any]) -> Outcome:
    _, _, last = line["id"].rpartition("/")
    return Outcome(
        test_class,
        line.get("method", "(the class)"),
        last.strip("[]").rpartition("#")[2] if "invocation:#" in last else "",
        status,
        line["ms"] / 1000,
        tuple(line.get("why", ())),
        tuple(line.get("notes", ())),
    )
