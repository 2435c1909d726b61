"""Runs the commands that a page shows, and writes below each what it prints.

Owns: the blocks ```console of docs/understand/log.md, over the data of `tests/support/pages/log_page.py`, and of
docs/start/command-line.md and docs/understand/share-groups.md, each over a broker with one open transaction, that of
the till; the picture of a partition.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from oncelog.client.blocking.clients import Admin, Producer
from tests.support.pages.log_page import make_data
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_ONCELOG = f'oncelog() {{ "{sys.executable}" -P -m oncelog "$@"; }}; export LC_ALL=C; '
_DRAW = "oncelog log map data/orders-0 --width 80 --svg log_map.svg"


def files_of_a_partition(page: str) -> str:
    """docs/understand/log.md."""
    with TemporaryDirectory() as directory:
        make_data(Path(directory, "data"))
        return _BLOCK.sub(lambda found: _run_block(found[0], directory), page)


def map_of_a_partition() -> str:
    """docs/images/log_map.svg."""
    with TemporaryDirectory() as directory:
        make_data(Path(directory, "data"))
        _run(_DRAW, directory)
        return Path(directory, "log_map.svg").read_text(encoding="utf-8")


def command_line(page: str) -> str:
    """docs/start/command-line.md, docs/understand/share-groups.md."""
    with TemporaryDirectory() as directory, TemporaryDirectory() as home, _shop(directory) as bootstrap:
        profile = Path(home, "config.toml")
        profile.write_text(f'profile = "patient"\n[profiles.patient]\ntimeout = {PATIENCE_S}\n', encoding="utf-8")
        environment = {"ONCELOG_BOOTSTRAP": bootstrap, "ONCELOG_CONFIG": str(profile)}
        return _BLOCK.sub(lambda found: _run_block(found[0], directory, **environment), page)


@contextmanager
def _shop(directory: str) -> Iterator[str]:
    daemon = Daemon(Path(directory) / "data", "group.initial.rebalance.delay.ms=0", "oncelog.flush.policy=os")
    bootstrap = daemon.bootstrap
    till = Producer(bootstrap, transactional_id="till", transaction_timeout_ms=PATIENCE_MS)
    try:
        with Admin(bootstrap) as admin, till as producer:
            admin.create_topics("sales")
            with producer.transaction() as transaction:
                transaction.send("sales", b"apples", key=b"shop-1")
            with producer.transaction() as transaction:
                transaction.send("sales", b"pears, scanned twice", key=b"shop-1")
                transaction.abort()
            with producer.transaction() as transaction:
                transaction.send("sales", b"plums", key=b"shop-2")
                yield bootstrap
                transaction.abort()
    finally:
        daemon.stop()


def _run_block(block: str, directory: str, **environment: str) -> str:
    """The commands of a block, each with what it prints."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_run(command[2:], directory, **environment)}" for command in commands)


def _run(command: str, directory: str, **environment: str) -> str:
    run = subprocess.run(
        ["bash", "-c", _ONCELOG + command],
        check=False,  # a command may fail, and the page shows that
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "TERM": "dumb", **environment},
    )
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())
