"""Compose files of public projects, unchanged but for the image: `public_files` has the table."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containers import ENGINE, Container
from tests.integration.foreign import ForeignProject, remove_project
from tests.integration.public_files import PUBLIC_FILES, PublicFile, Unavailable, fetch

pytestmark = pytest.mark.compose


@pytest.fixture(params=PUBLIC_FILES, ids=lambda file: file.name)
def file(request: pytest.FixtureRequest) -> PublicFile:
    chosen: PublicFile = request.param
    if chosen.published:
        _, _, port = chosen.published.partition(":")
        with socket.socket() as there:
            if there.connect_ex(("127.0.0.1", int(port))) == 0:
                pytest.skip(f"port {port} of this machine, which the file publishes, is in use")
    return chosen


@pytest.fixture
def broker(file: PublicFile, tmp_path: Path) -> Iterator[Container]:
    """The file's broker, healthy."""
    if ENGINE is None:
        pytest.skip("compose files are run from outside: make compose-test")
    try:
        found = fetch(file, tmp_path)
    except Unavailable as why:
        pytest.skip(str(why))
    remove_project()
    try:
        running = ForeignProject(found, tmp_path).up(file.service)
        running.wait_until_healthy()
        yield running
    finally:
        remove_project()


def test_clients_write_and_read_where_the_file_says_the_broker_is(file: PublicFile, broker: Container) -> None:
    script = (
        "kafka-topics.sh --bootstrap-server {0} --create --topic purchases --partitions 2 && "
        "echo tea | kafka-console-producer.sh --bootstrap-server {0} --topic purchases && "
        "kafka-console-consumer.sh --bootstrap-server {0} --topic purchases --from-beginning --max-messages 1"
    )
    assert "tea\n" in broker.execute("sh", "-c", script.format(file.inside))
    if file.published:
        _oncelog("produce", "-b", file.published, "purchases", "milk")
        assert set(_oncelog("consume", "-b", file.published, "--exit", "purchases").split()) == {"tea", "milk"}


def _oncelog(command: str, *words: str) -> str:
    """Our command line, on this machine."""
    return subprocess.run(
        [sys.executable, "-m", "oncelog", "record", command, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
