"""An administrator in simulation: creates and deletes topics, and tries to delete `__transaction_state` too.

Owns: what it asks for. That no transaction hangs for it, and that the metadata with its snapshots survives every stop
meanwhile, is what the auditor and the start itself demand.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from tests.clients.simulated import Life, Question

STATE = "__transaction_state"


def tidies(random: Random, count: int) -> Life:
    for number in range(count):
        name = f"temporary-{number}"
        wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        yield from _until(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5, ErrorCode.TOPIC_ALREADY_EXISTS)
        yield random.choice([0, 50, 400])
        yield from _until(_deletion(name), 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Refused while a transaction is open; otherwise every id is forgotten, and the topic comes with the next need.
        yield _deletion(STATE), 5
        yield from _until(FindCoordinatorRequest(key="any", key_type=1), 2, ErrorCode.NONE)
        yield random.choice([100, 500, 1_500])


def _deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000)


def _until(request: Any, version: int, done_before: ErrorCode) -> Generator[Question | int, Any, None]:
    """Asks until it is done; `done_before` is what a retry is told whose answer was lost."""
    while True:
        answer = yield request, version
        if answer is not None:
            results = getattr(answer, "topics", None) or getattr(answer, "responses", None) or [answer]
            if results[0].error_code in (ErrorCode.NONE, done_before):
                return
        yield 30
