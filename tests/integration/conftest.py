"""Workers, topics and containers for the scenarios. Every scenario has names of its own, and leaves the project as it
found it: containers run, are healthy and connected."""

import os
import subprocess
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.containers import ENGINE, Container, Worker, broker_logs, introduce_brokers

BOOTSTRAP = os.environ.get("ONCELOG_BOOTSTRAP", "broker:9092")
Hire = Callable[..., Worker]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the brokers to the report of a scenario that fails."""
    report = yield
    if report.failed and ENGINE is not None:
        report.sections += [(f"Log of {name}", text) for name, text in broker_logs().items()]
    return report


@pytest.fixture(scope="session", autouse=True)
def introduced() -> None:
    if ENGINE is not None:
        introduce_brokers()


@pytest.fixture(params=["bundled", "librdkafka"])
def kind(request: pytest.FixtureRequest) -> str:
    """The client that the workers run."""
    return str(request.param)


@pytest.fixture
def hire(kind: str) -> Iterator[Hire]:
    """`hire("alice")`: a worker in the container of that service."""
    with ExitStack() as stack:

        def start(service: str, bootstrap: str = BOOTSTRAP, client: str = kind) -> Worker:
            worker = Worker(service, client, bootstrap)
            stack.callback(worker.end)
            return worker

        yield start


@pytest.fixture
def name() -> str:
    """A fresh prefix for topics, groups and transactional ids of this scenario."""
    return f"purchases-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(name: str) -> str:
    """A topic of two partitions."""
    create_topic(name)
    return name


def create_topic(name: str, bootstrap: str = BOOTSTRAP) -> None:
    command = ["oncelog", "topic", "create", "--bootstrap", bootstrap, "-p", "2", name]
    if ENGINE is None:
        subprocess.run(command, check=True)
    else:
        Container("alice").execute(*command)


@pytest.fixture
def container() -> Iterator[Callable[[str], Container]]:
    """`container("broker")`, which the scenario may kill, stop or cut off; skips without an engine."""
    if ENGINE is None:
        pytest.skip("containers are commanded from outside: make compose-test")
    used: list[Container] = []

    def find(service: str) -> Container:
        used.append(Container(service))
        return used[-1]

    yield find
    for each in used:
        each.restore()
        if "broker" in each.service:
            each.wait_until_healthy()
