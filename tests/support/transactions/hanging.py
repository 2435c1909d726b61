"""A daemon with a transaction that hangs: open in its partition, and no coordinator knows of it."""

import shutil
import time

from tests.clients.conversation import Conversation
from tests.clients.wire import WireBroker
from tests.support.processes.daemon import Daemon

AN_HOUR_MS = 3_600_000


def conversation(bootstrap: str) -> Conversation:
    """With a broker whose transaction coordinator is there; batches are an hour old."""
    broker = WireBroker(bootstrap)
    talk = Conversation(broker, time.time_ns() // 1_000_000 - AN_HOUR_MS)
    while talk.ask("FindCoordinator", 2, key="any", key_type=1).error_code:
        broker.let_pass(20)
    return talk


def hang(daemon: Daemon, topic: str) -> int:
    """Make the topic with two partitions, and a transaction on the first that hangs; returns its first offset.

    Every write is verified with the coordinator, so the coordinator loses its log between two starts.
    """
    talk = conversation(daemon.bootstrap)
    talk.create_topic(topic, 2)
    producer = talk.started("lost")
    added = producer.add(0, topic=topic)
    error, start_offset = producer.produce(0, topic=topic)
    daemon.stop()
    lost = list(daemon.data_dir.glob("__transaction_state-*"))
    if (added, error, len(lost)) != (["NONE"], "NONE", 1):
        raise RuntimeError(f"no transaction hangs: {added}, {error}, {lost}")
    shutil.rmtree(lost[0])
    (daemon.data_dir / "flushed-offsets").unlink()  # else the start refuses: acknowledged records are gone
    daemon.start()
    return start_offset
