"""Compose files as people wrote them for other images work with this one: only `image:` is changed.

Each file of `compose_files` has the settings, health check and commands of a public project's, named in its first
line, in our own words. Its first service is the broker; `works` does what their init containers do, and makes a topic.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.containers import ENGINE, Container

pytestmark = [pytest.mark.compose, pytest.mark.timeout(120)]
FOLDER = Path(__file__).parent / "compose_files"
IMAGE = "localhost/oncelog-broker:local" if ENGINE == "podman" else "oncelog-broker:local"
PROJECT = "oncelog-foreign"
FILES = sorted(FOLDER.glob("*.yml"))
Compose = Callable[..., None]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of the files, with our image."""
    if ENGINE is None:
        pytest.skip("compose files are run from outside: make compose-test")
    changed = tmp_path / "docker-compose.yml"
    changed.write_text(re.sub(r"(?m)^(\s+image:) .*", rf"\1 {IMAGE}", request.param.read_text()))
    return changed


@pytest.fixture
def compose(file: Path) -> Iterator[Compose]:
    command = [*os.environ["ONCELOG_COMPOSE_COMMAND"].split(), "-p", PROJECT, "-f", str(file)]

    def run(*words: str) -> None:
        ended = subprocess.run([*command, *words], cwd=file.parent, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr

    yield run
    run("down", "--volumes")


def test_a_compose_file_for_another_image_works_by_changing_its_image(file: Path, compose: Compose) -> None:
    text = file.read_text()
    (broker, *_) = re.findall(r"(?m)^  (\S+):$", text.partition("services:")[2])
    (bootstrap, *_) = re.findall(r"--bootstrap-server[ =](\w+:\d+)", text)
    compose("up", "-d", broker)
    running = Container(broker, PROJECT)
    running.wait_until_healthy()
    compose("up", "-d", "works")
    works = Container("works", PROJECT)
    assert works.exit_code() == 0, works.log()
    described = running.execute("kafka-topics.sh", "--bootstrap-server", bootstrap, "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described


def test_there_are_files_of_each_style() -> None:
    images = {image for each in FILES for image in re.findall(r"image: ([^:\s]+)", each.read_text())}
    assert len(FILES) >= 6
    assert {"apache/kafka", "bitnami/kafka", "confluentinc/cp-kafka"} <= images
