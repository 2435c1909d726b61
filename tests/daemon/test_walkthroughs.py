"""The pages to type along with, docs/start/tutorial.md and the like, in one shell from the first command to the last:
each prints what the page says below it."""

from pathlib import Path

import pytest

from tests.support.walkthrough import steps_of, walk

pytestmark = pytest.mark.slow


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", ["start/tutorial.md", "operate/operations.md", "operate/beyond-one-node.md"])
def test_each_command_prints_what_the_page_says(page: str, tmp_path: Path) -> None:
    walk(steps_of(page), tmp_path)


def test_one_vm_is_secured_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    """TLS by openssl, SCRAM, rights, quotas, metrics, a backup and its restoration: each command of the page, but what
    needs root."""
    walk(steps_of("operate/one-vm.md"), tmp_path, has_listeners=True)
