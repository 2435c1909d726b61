"""The pages to type along with, docs/start/tutorial.md and the like, in one shell from the first command to the last:
each prints what the page says below it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.tools.service import next_steps
from tests.support.pages.walkthrough import Step, steps_of, walk

pytestmark = pytest.mark.slow
ONE_VM = "operate/one-vm.md"
SERVICE = 64_999
"""The number of a user who owns nothing on this machine."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", ["start/tutorial.md", "operate/operations.md", "operate/beyond-one-node.md"])
def test_each_command_prints_what_the_page_says(page: str, tmp_path: Path) -> None:
    walk(steps_of(page), tmp_path)


def test_one_vm_is_secured_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    """TLS by openssl, SCRAM, rights, quotas, metrics, a backup and its restoration: each command of the page, but what
    needs root."""
    walk(steps_of(ONE_VM), tmp_path, has_listeners=True)


@pytest.fixture
def reached() -> Iterator[Path]:
    """A directory that other users reach."""
    with tempfile.TemporaryDirectory(prefix="oncelog-one-vm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_service(*command: str) -> list[str]:
    return ["setpriv", f"--reuid={SERVICE}", f"--regid={SERVICE}", "--clear-groups", *command]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another user")
def test_one_vm_works_for_a_service_with_a_user_of_its_own(reached: Path) -> None:
    """Root types the commands, as with the unit; the broker, also that of the drill and of the way back, runs as a user
    who owns the data directory and no other file, and starts where the unit lets it write.
    """
    python = [sys.executable, "-P", "-m", "oncelog"]
    if subprocess.run(as_service(*python, "--version"), capture_output=True, check=False, cwd=reached).returncode:
        pytest.skip("this Python is out of reach for other users")
    steps = steps_of(ONE_VM)
    (unit_at,) = (number for number, step in enumerate(steps) if "service install" in step.command)
    left = next_steps(reached / "server.properties", reached / "data", str(SERVICE))
    page = (Path(__file__).parents[2] / "docs" / ONE_VM).read_text(encoding="utf-8")
    (key,) = re.findall(r"`(chgrp oncelog [^`]*)`", page)
    handed = [line for line in left if line.startswith(("install", "chgrp"))] + [key.replace("oncelog", str(SERVICE))]
    assert len(handed) == 3
    steps.insert(unit_at + 1, Step("".join(f"{line}\n" for line in handed), ""))
    served = " ".join(as_service(*python))
    script = f'[ "$1" = serve ] && exec {served} "$@"; exec {" ".join(python)} "$@"'
    walk(steps, reached, {"oncelog": script}, has_listeners=True)
    unit = (reached / "oncelog.service").read_text(encoding="utf-8")
    (writable,) = re.findall("^ReadWritePaths=(.*)$", unit, re.MULTILINE)
    assert writable == str(reached / "data")
    begun = [step.command for step in steps if step.command.startswith("start()")]
    assert [re.findall(r"serve .*--data-dir (\S+)", command) for command in begun] == [["data"]]
    owners = {each: each.lstat().st_uid for each in reached.rglob("*")}
    assert {uid for each, uid in owners.items() if each.is_relative_to(writable)} == {SERVICE}
    copies = {"data", "drill", "data-of-the-next-version", "backup-1", "before-upgrade"}
    of_service = {each.relative_to(reached).parts[0] for each, uid in owners.items() if uid == SERVICE}
    assert of_service == copies
    assert {(reached / name).stat().st_uid for name in ("backup-1", "before-upgrade")} == {0}
