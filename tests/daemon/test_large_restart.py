"""A real start over the logs of a hundred thousand transactional ids and as many groups."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.clients.wire import WireBroker
from tests.support.logs.large_logs import group_id, transactional_id, write_large_logs
from tests.support.processes.daemon import Daemon

COUNT = 100_000
TOPIC = "payments"
MEMORY_PER_ID_BYTES = 1_000
REFERENCES = 11.0
"""Twice what it takes, counted in what a fixed work takes at the same time: of the process itself, and a machine whose
cores are shared slows both down."""


def reference_s() -> float:
    """Measure the processor time of some two million steps of Python."""
    began_s = time.process_time()
    found: dict[str, tuple[int, int]] = {}
    for number in range(2_000_000):
        found[f"id-{number % COUNT}"] = (number, number + 1)
    return time.process_time() - began_s


def cpu_s(daemon: Daemon) -> float:
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory_bytes(daemon: Daemon) -> int:
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def loaded(broker: WireBroker, ask: Callable[[], Any]) -> Any:
    while (answer := ask()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        broker.let_pass(20)
    return answer


@pytest.mark.slow
def test_a_hundred_thousand_ids_and_groups_are_served_after_seconds_and_the_broker_at_once(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    empty = Daemon(tmp_path / "empty")
    memory_of_none = memory_bytes(empty)
    empty.stop()
    write_large_logs(data_dir, id_count=COUNT, group_count=COUNT, topic=TOPIC)
    before_s = reference_s()
    daemon = Daemon(data_dir)
    try:
        broker = WireBroker(daemon.bootstrap)
        assert broker.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
        cpu_to_first_answer_s = cpu_s(daemon)
        last = COUNT - 1
        described = DescribeTransactionsRequest(transactional_ids=[transactional_id(last)])
        started_s = time.monotonic()
        state = loaded(broker, lambda: broker.ask(described, 0).transaction_states[0])
        waited_s = time.monotonic() - started_s
        topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        fetched = loaded(broker, lambda: broker.ask(OffsetFetchRequest(group_id=group_id(last), topics=topics), 7))
        # One partition answers while others load; a list of all waits for the last of them.
        listed = loaded(broker, lambda: broker.ask(ListTransactionsRequest(), 0))
        cpu_to_all_s, memory = cpu_s(daemon), memory_bytes(daemon)
        broker.close()
    finally:
        daemon.kill()
    assert cpu_to_first_answer_s < 1.0
    assert cpu_to_all_s < REFERENCES * max(before_s, reference_s())
    assert (memory - memory_of_none) / (2 * COUNT) < MEMORY_PER_ID_BYTES
    assert state.transaction_state == "CompleteCommit"
    assert fetched.topics[0].partitions[0].committed_offset == last
    assert len(listed.transaction_states) == COUNT
    print(
        f"first answer after {cpu_to_first_answer_s:.2f} s of processor time, all after {cpu_to_all_s:.2f} s "
        f"({waited_s:.1f} s on the clock), {(memory - memory_of_none) // (2 * COUNT)} bytes an id"
    )
