"""Which settings of groups must not be larger than which others (KIP-932, KIP-1071, KIP-1263).

Owns: the table, in the order and the words of Kafka's GroupCoordinatorConfig and ShareGroupConfig. Does not own: the
bounds of each setting by itself (`coordinator_keys`).
"""

from collections.abc import Callable, Collection

_AT_LEAST, _AT_MOST, _BELOW = "greater than or equal to", "less than or equal to", "less than"
_ORDER = (
    ("group.consumer.max.assignment.interval.ms", _AT_LEAST, "group.consumer.min.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", _AT_LEAST, "group.consumer.min.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", _AT_MOST, "group.consumer.max.assignment.interval.ms"),
    ("group.share.max.heartbeat.interval.ms", _AT_LEAST, "group.share.min.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", _AT_LEAST, "group.share.min.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", _AT_MOST, "group.share.max.heartbeat.interval.ms"),
    ("group.share.max.session.timeout.ms", _AT_LEAST, "group.share.min.session.timeout.ms"),
    ("group.share.session.timeout.ms", _AT_LEAST, "group.share.min.session.timeout.ms"),
    ("group.share.session.timeout.ms", _AT_MOST, "group.share.max.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", _BELOW, "group.share.session.timeout.ms"),
    ("group.share.max.assignment.interval.ms", _AT_LEAST, "group.share.min.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", _AT_LEAST, "group.share.min.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", _AT_MOST, "group.share.max.assignment.interval.ms"),
    ("group.share.max.delivery.count.limit", _AT_LEAST, "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", _AT_LEAST, "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", _AT_LEAST, "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", _AT_LEAST, "group.share.min.partition.max.record.locks"),
    ("group.share.record.lock.duration.ms", _AT_LEAST, "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", _AT_LEAST, "group.share.record.lock.duration.ms"),
    ("group.share.max.share.sessions", _AT_LEAST, "group.share.max.size"),
    ("group.streams.max.heartbeat.interval.ms", _AT_LEAST, "group.streams.min.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", _AT_LEAST, "group.streams.min.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", _AT_MOST, "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.max.session.timeout.ms", _AT_LEAST, "group.streams.min.session.timeout.ms"),
    ("group.streams.session.timeout.ms", _AT_LEAST, "group.streams.min.session.timeout.ms"),
    ("group.streams.session.timeout.ms", _AT_MOST, "group.streams.max.session.timeout.ms"),
    ("group.streams.heartbeat.interval.ms", _BELOW, "group.streams.session.timeout.ms"),
    ("group.streams.max.assignment.interval.ms", _AT_LEAST, "group.streams.min.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", _AT_LEAST, "group.streams.min.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", _AT_MOST, "group.streams.max.assignment.interval.ms"),
    ("group.streams.num.standby.replicas", _AT_MOST, "group.streams.max.standby.replicas"),
)


def check_order(get_int: Callable[[str], int], changed: Collection[str] | None = None) -> None:
    """Look at all settings, or at those that are to change. Raises ValueError for the first pair that is in the wrong
    order."""
    for name, relation, other in _ORDER:
        if changed is not None and name not in changed and other not in changed:
            continue
        value, bound = get_int(name), get_int(other)
        is_kept = {_AT_LEAST: value >= bound, _AT_MOST: value <= bound, _BELOW: value < bound}[relation]
        if not is_kept:
            raise ValueError(f"{name} must be {relation} {other}")
