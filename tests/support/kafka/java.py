"""Apache Kafka's own classes behind a pipe: questions in, one a line; answers out, one a line."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def ask_kafka(program: Path, questions: Sequence[str]) -> list[str]:
    """Runs a Java source file over Kafka's jars; skips the test where there is no Java or no jars."""
    libraries = os.environ.get("ONCELOG_KAFKA_LIBS")
    java = shutil.which("java")
    if libraries is None or java is None:
        pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    answer = subprocess.run(
        [java, "-cp", f"{libraries}/*", str(program)],
        input="\n".join(questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        encoding="utf-8",
    )
    lines = answer.stdout.splitlines()
    assert len(lines) == len(questions), answer.stderr
    return lines


def kafka_version() -> str:
    """The version of the jars that `ask_kafka` uses, by the name of one of them."""
    (jar,) = Path(os.environ["ONCELOG_KAFKA_LIBS"]).glob("kafka-clients-*.jar")
    return jar.stem.removeprefix("kafka-clients-")
