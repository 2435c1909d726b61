"""Runs the commands of docs/start/command-line.md again, and writes their output below them; writes its list of
commands.

    PYTHONPATH=. python tools/update_command_line_page.py

A test holds the page to this. The commands run against a broker with one open transaction: that of the till.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from oncelog.cli import main as oncelog
from oncelog.client.blocking.clients import Admin, Producer
from tests.support.daemon import Daemon
from tools.update_log_page import BLOCK, run_block

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "start" / "command-line.md"
_LIST = re.compile(r"(?<=<!-- commands -->\n).*?(?=<!-- end -->)", re.DOTALL)


def updated(page: str) -> str:
    """The page as it should be."""
    page = _LIST.sub(lambda _: "".join(_lines(oncelog, "oncelog")), page)
    with TemporaryDirectory() as directory:
        daemon = Daemon(Path(directory) / "data", "group.initial.rebalance.delay.ms=0", "oncelog.flush.policy=os")
        try:
            return _run(page, directory, daemon.bootstrap)
        finally:
            daemon.stop()


def _run(page: str, directory: str, bootstrap: str) -> str:
    with Admin(bootstrap) as admin, Producer(bootstrap, transactional_id="till") as producer:
        admin.create_topics("sales")
        with producer.transaction() as transaction:
            transaction.send("sales", b"apples", key=b"shop-1")
        with producer.transaction() as transaction:
            transaction.send("sales", b"pears, scanned twice", key=b"shop-1")
            transaction.abort()
        with producer.transaction() as transaction:
            transaction.send("sales", b"plums", key=b"shop-2")
            environment = {"ONCELOG_BOOTSTRAP": bootstrap, "ONCELOG_CONFIG": os.devnull}
            page = BLOCK.sub(lambda found: run_block(found[0], directory, **environment), page)
            transaction.abort()
    return page


def _lines(group: click.Group, path: str) -> Iterator[str]:
    """One line for each noun: its verbs, and what it is for."""
    context = click.Context(group)
    yield "| | |\n|---|---|\n"
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        verbs = ""
        if isinstance(command, click.Group):
            verbs = " " + "\\|".join(command.list_commands(click.Context(command)))
        yield f"| `{path} {name}{verbs}` | {command.get_short_help_str(200)} |\n"


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
