"""A broker starts in a blink: it loads what its first answer needs, and nothing that only later ones do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.health import check_health
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import READY

ROOT = Path(__file__).parent.parent.parent
MOST_MODULES = 144
"""The limit on our own modules at a start, not counting packages, which are a docstring. Each takes half a millisecond
or so.
"""
# What costs, and who loads it when it is needed.
NOT_AT_START = {
    "oncelog.broker.admin": "when it is switched on",
    "oncelog.broker.coordinator.group": "when a group is asked for, or found in the log",
    "oncelog.broker.faults": "when it is switched on",
    "oncelog.broker.storage.compaction.compaction_round": "when a log is compacted",
    "oncelog.client": "by clients",
    "construct": "by tests and generators",
    "cramjam": "by the first batch to look into or to rewrite",
    "crc32c": "never: see protocol.checksum",
    "email": "never: importlib.metadata would",
    "importlib.metadata": "by oncelog --version",
    "prometheus_client": "when metrics are switched on",
    "lz4": "by the first batch to look into or to rewrite",
    "oncelog.tools.log.cli": "by its commands",
    "oncelog.tools.txn.cli": "by its commands",
    "oncelog.protocol.generated.fetch_request": "by the first Fetch",
    "oncelog.protocol.generated.produce_request": "by the first Produce",
    "oncelog.protocol.schema": "by the first request that is read by its declaration",
    "pyarrow": "by the demonstration",
    "re2": "by the first pattern",
    "rich": "by commands that draw",
    "backports.zstd": "by the first batch to look into or to rewrite",
}
_IMPORTED = re.compile(r"^import '([\w.]+)' #", re.MULTILINE)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every module that a daemon has imported when it has answered its first ApiVersions."""
    path = tmp_path_factory.mktemp("start")
    command = [sys.executable, "-P", "-v", "-m", "oncelog", "serve", "--listen", "127.0.0.1:0"]
    with (path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--data-dir", str(path / "data")],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            line = process.stdout.readline() if process.stdout else ""
            host, _, port = line.removeprefix(READY).strip().rpartition(":")
            check_health(host, int(port), timeout_s=PATIENCE_S)
        finally:
            process.kill()
            process.communicate()
    return set(_IMPORTED.findall((path / "stderr").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NOT_AT_START)
def test_first_answer_waits_for_nothing_that_only_later_ones_need(name: str, loaded: set[str]) -> None:
    assert not [module for module in loaded if module == name or module.startswith(f"{name}.")], NOT_AT_START[name]


def test_start_loads_no_more_modules_than_it_did(loaded: set[str]) -> None:
    assert "oncelog.broker.handlers.api_versions" in loaded
    packages = {name.rpartition(".")[0] for name in loaded}
    assert len([name for name in loaded - packages if name.startswith("oncelog.")]) <= MOST_MODULES
