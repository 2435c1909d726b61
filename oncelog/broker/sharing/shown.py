"""What is shown of a share group beside Kafka's protocol: what is in flight, how often it was delivered, what fails.

Owns: the values of `GET /share-groups/GROUP` (`broker.admin`), in the turn in which each share-partition is reached,
durable or not. Does not own: members and lag, which Kafka's protocol has. Changes nothing, waits for nothing.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from oncelog.broker.sharing.values import ACQUIRED, AVAILABLE
from oncelog.broker.turns.slices import Sliced

if TYPE_CHECKING:
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.sharing.manager import SharePartitionManager
    from oncelog.broker.sharing.partition import SharePartition

MOST_FAILED: Final = 10
"""How many failed records are shown of a share-partition."""
_RUNS_AN_ELEMENT: Final = 4


def show_share_partitions(manager: "SharePartitionManager", topics: "Topics", group_id: str) -> Sliced[list[Any]]:
    """Return the share-partitions that the group uses now, and those with records that have failed."""
    shown = []
    for key in manager.known(group_id):
        topic = topics.by_id(key.topic_id)
        if topic is None:
            continue
        life = manager.find_by_key(key)
        state = None if life is None else life.state
        row: dict[str, Any] = {"topic": topic.name, "partition": key.partition, "is_in_use": state is not None}
        if state is not None:
            yield len(state.runs()) // _RUNS_AN_ELEMENT
            row |= _in_flight(state)
        row["failed"] = [each._asdict() for each in manager.failures.worst(key, MOST_FAILED)]
        shown.append(row)
        yield 1
    return sorted(shown, key=lambda row: (row["topic"], row["partition"]))


def _in_flight(state: "SharePartition") -> dict[str, Any]:
    delivery_counts: Counter[int] = Counter()
    acquired = available = 0
    for run in state.runs():
        count = run.last_offset - run.first_offset + 1
        if run.state == ACQUIRED:
            acquired += count
        elif run.state == AVAILABLE:
            available += count
        else:
            continue
        delivery_counts[run.delivery_count] += count
    return {
        "start_offset": state.start_offset,
        "end_offset": state.end_offset,
        "in_flight": state.in_flight_count,
        "acquired": acquired,
        "available": available,
        "delivery_complete": state.delivery_complete_count,
        "delivery_counts": {str(count): delivery_counts[count] for count in sorted(delivery_counts)},
    }
