"""What can be seen of a broker between two steps, and the order of its events."""

from oncelog.broker.faults.events import KEPT, Events
from oncelog.broker.faults.rule import Action, Point, Selector
from oncelog.broker.faults.snapshot import show_partitions, show_transactions
from oncelog.protocol.api_keys import ApiKey
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID
from tests.fakes.virtual_time import VirtualTime
from tests.unit.faults.support import V1, V2, begin, opened, plant


def test_a_snapshot_shows_each_partition_that_lacks_its_marker_and_no_other() -> None:
    broker, writer = opened(V1)
    held = plant(broker, Point.MARKER, Action.HOLD, Selector(partition=1))
    writer.finish()
    (shown,) = show_transactions(broker.faults)
    assert (shown["transactional_id"], shown["state"], shown["is_pending"]) == (TRANSACTIONAL_ID, "PrepareCommit", True)
    assert (shown["partitions"], shown["without_marker"]) == (["topic-0", "topic-1"], ["topic-1"])
    first, second = show_partitions(broker.faults, TOPIC)
    assert first["open_transactions"] == []
    assert (first["last_stable_offset"], first["high_watermark"]) == (2, 2)
    assert second["open_transactions"] == [
        {"producer_id": writer.producer_id, "producer_epoch": writer.producer_epoch, "first_offset": 0}
    ]
    assert (second["last_stable_offset"], second["high_watermark"]) == (0, 1)
    broker.faults.remove(held)
    broker.time.settle()
    (shown,) = show_transactions(broker.faults)
    assert (shown["state"], shown["is_pending"], shown["without_marker"]) == ("CompleteCommit", False, [])


def test_a_rotation_shows_the_producer_id_that_comes_next() -> None:
    broker, writer = opened(V2)
    writer.finish()
    broker.broker.transactions.move_epoch_on(TRANSACTIONAL_ID, 32_765)
    broker.time.settle()
    begin(writer.init(), 0)
    plant(broker, Point.MARKER, Action.HOLD)
    writer.finish()
    (shown,) = show_transactions(broker.faults)
    assert shown["next_producer_id"] == writer.producer_id != shown["producer_id"]


def test_events_report_what_happened_in_its_order() -> None:
    broker, writer = opened(V1)
    events = broker.faults.events
    since = events.last_number
    late = plant(broker, Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.END_TXN))
    writer.finish()
    broker.faults.release(late)
    broker.time.settle()
    broker.faults.remove(late)
    told = [(event["event"], event.get("state") or event.get("partition")) for event in events.since(since)]
    assert told == [
        ("rule planted", None),
        ("fault", None),
        ("transition", "PrepareCommit"),
        ("marker", "topic-0"),
        ("marker", "topic-1"),
        ("transition", "CompleteCommit"),
        ("released", None),
        ("copy answered", None),
        ("rule removed", None),
    ]


def test_the_last_events_are_kept_and_numbered_without_a_gap() -> None:
    events = Events(VirtualTime())
    heard: list[int] = []
    stop = events.listen(lambda event: heard.append(event["number"]))
    for number in range(KEPT + 10):
        events.append("transition", of=number)
    stop()
    events.append("transition", of=-1)
    assert heard == list(range(1, KEPT + 11))
    assert [event["number"] for event in events.since(0)] == list(range(12, KEPT + 12))
    assert events.since(events.last_number) == []
