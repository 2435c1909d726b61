"""What the broker's image holds, and what it needs of its container."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.containers import BROKER_IMAGE, ENGINE

pytestmark = pytest.mark.compose
MOST_BYTES_ABOVE_BASE = 120_000_000


@pytest.fixture(autouse=True)
def _needs_an_engine() -> None:
    if ENGINE is None:
        pytest.skip("images are looked at from outside: make compose-test")


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(ENGINE), *words], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("module", ["pip", "setuptools", "hatchling", "mypy", "pytest"])
def test_the_image_has_no_tools_of_its_build(module: str) -> None:
    found = _run("run", "--rm", BROKER_IMAGE, "python", "-c", f"import {module}")
    assert found.returncode == 1
    assert f"No module named '{module}'" in found.stderr


def test_the_image_says_what_is_installed_in_it() -> None:
    listed = json.loads(_run("run", "--rm", BROKER_IMAGE, "cat", "/usr/share/doc/oncelog/sbom.cdx.json").stdout)
    program = "import importlib.metadata as m, json; print(json.dumps([d.metadata['Name'] for d in m.distributions()]))"
    installed = json.loads(_run("run", "--rm", BROKER_IMAGE, "python", "-c", program).stdout)
    assert {each["name"] for each in listed["components"]} == {*installed, "cpython"}
    assert all(each["version"] for each in listed["components"])


def test_the_image_is_small_above_its_base() -> None:
    used = _run("run", "--rm", BROKER_IMAGE, "du", "-sxB1", "/opt").stdout  # what the bases have is elsewhere
    assert 0 < int(used.split()[0]) < MOST_BYTES_ABOVE_BASE


def test_a_broker_needs_no_writable_root_file_system_and_no_rights() -> None:
    container = _run(
        "run", "-d", "--read-only", "--cap-drop=all", BROKER_IMAGE
    ).stdout.strip()  # its volume is writable
    try:
        topics = ("kafka-topics.sh", "--bootstrap-server", "localhost:9092")
        made = _run("exec", container, *topics, "--create", "--topic", "orders")
        assert made.returncode == 0, made.stdout + made.stderr
        assert _run("exec", container, *topics, "--list").stdout == "orders\n"
    finally:
        _run("rm", "--force", "--volumes", container)


def test_a_mounted_configuration_takes_the_place_of_the_defaults(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the container's user is another one
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://:19092\nnum.partitions=5\n")
    container = _run("run", "-d", "-v", f"{tmp_path}:/mnt/shared/config:ro", BROKER_IMAGE).stdout.strip()
    try:
        topics = ("kafka-topics.sh", "--bootstrap-server", "localhost:19092", "--topic", "orders")
        made = _run("exec", container, *topics, "--create")
        assert made.returncode == 0, made.stdout + made.stderr
        assert "PartitionCount: 5" in _run("exec", container, *topics, "--describe").stdout
        assert _run("exec", container, "/opt/oncelog/image/healthcheck.sh").returncode == 0
    finally:
        _run("rm", "--force", "--volumes", container)
