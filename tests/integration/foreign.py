"""A compose file that was written for another image, run with ours: the one change is `image:` of the Kafka services.

Owns: that change, starting services of the changed file, and removing what they leave. Does not own: where the file is
from (`public_files`, `compose_files`).
"""

import os
import re
import subprocess
from pathlib import Path

from tests.integration.containers import BROKER_IMAGE, ENGINE, Container

PROJECT = "oncelog-foreign"
_KAFKA_IMAGE = re.compile(r"(?m)^(\s+image:\s*)(?:\S+/)?(?:kafka|cp-kafka|cp-enterprise-kafka|confluent-local)[:@]\S*$")
_OF_PROJECT = ("--filter", f"label=com.docker.compose.project={PROJECT}")


def with_our_image(text: str) -> str:
    """The text of a compose file with our image in every service that runs Kafka's, of whatever publisher."""
    return _KAFKA_IMAGE.sub(rf"\g<1>{BROKER_IMAGE}", text)


class ForeignProject:
    """A copy of `file` in `folder`, the same but for the image. What a service depends on is not started with it."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._file = folder / "docker-compose.yml"
        self._file.write_text(with_our_image(file.read_text()))

    def up(self, service: str) -> Container:
        command = [*os.environ["ONCELOG_COMPOSE_COMMAND"].split(), "-p", PROJECT, "-f", str(self._file)]
        ended = subprocess.run(
            [*command, "up", "-d", "--no-deps", "--no-build", service],
            cwd=self._file.parent,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
        return Container(service, PROJECT)


def remove_project() -> None:
    """Remove the project by its label: `down` of podman-compose takes a second for each service of the file, started or
    not.
    """
    _remove(["rm", "--force", "--volumes"], ["ps", "-aq"])
    _remove(["volume", "rm"], ["volume", "ls", "-q"])
    _remove(["network", "rm"], ["network", "ls", "-q"])


def _remove(removal: list[str], listing: list[str]) -> None:
    listed = subprocess.run([str(ENGINE), *listing, *_OF_PROJECT], capture_output=True, text=True, check=True)
    if found := listed.stdout.split():
        subprocess.run([str(ENGINE), *removal, *found], capture_output=True, check=True)
