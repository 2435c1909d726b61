"""Compose files as people wrote them for other images work with this one: only `image:` is changed.

Each file of `compose_files` has the settings, health check and commands of a public project's, named in its first
line, in our own words. Its first service is the broker; `works` does what their init containers do, and makes a topic.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containers import ENGINE
from tests.integration.foreign import ForeignProject, remove_project

pytestmark = pytest.mark.compose
FOLDER = Path(__file__).parent / "compose_files"
FILES = sorted(FOLDER.glob("*.yml"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def file(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture
def project(file: Path, tmp_path: Path) -> Iterator[ForeignProject]:
    """One of the files, with our image."""
    if ENGINE is None:
        pytest.skip("compose files are run from outside: make compose-test")
    remove_project()
    yield ForeignProject(file, tmp_path)
    remove_project()


def test_a_compose_file_for_another_image_works_by_changing_its_image(file: Path, project: ForeignProject) -> None:
    text = file.read_text()
    (broker, *_) = re.findall(r"(?m)^  (\S+):$", text.partition("services:")[2])
    (bootstrap, *_) = re.findall(r"--bootstrap-server[ =](\w+:\d+)", text)
    running = project.up(broker)
    running.wait_until_healthy()
    works = project.up("works")
    assert works.exit_code() == 0, works.log()
    described = running.execute("kafka-topics.sh", "--bootstrap-server", bootstrap, "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described


def test_there_are_files_of_each_style() -> None:
    images = {image for each in FILES for image in re.findall(r"image: ([^:\s]+)", each.read_text())}
    assert len(FILES) >= 6
    assert {"apache/kafka", "bitnami/kafka", "confluentinc/cp-kafka"} <= images
