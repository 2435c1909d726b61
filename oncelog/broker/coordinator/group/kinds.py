"""The types of groups whose state is what their records add up to, in one table.

Owns: which records belong to which type, and which part of a type is loaded when. Does not own: the entries, one in
the package of each type.

A type other than that of consumer groups is imported with its first record or request: many brokers never have one.
"""

from collections.abc import Callable, Mapping

from oncelog.broker.coordinator.group.consumer.kind import CONSUMER_GROUPS
from oncelog.broker.coordinator.group.engine.kind import GroupKind, ModernGroup
from oncelog.broker.coordinator.group.engine.requests import CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE


def _share_groups() -> GroupKind:
    from oncelog.broker.coordinator.group.share.kind import SHARE_GROUPS

    return SHARE_GROUPS


def _streams_groups() -> GroupKind:
    from oncelog.broker.coordinator.group.streams.kind import STREAMS_GROUPS

    return STREAMS_GROUPS


_KINDS: Mapping[str, Callable[[], GroupKind]] = {
    CONSUMER_TYPE: lambda: CONSUMER_GROUPS,
    SHARE_TYPE: _share_groups,
    STREAMS_TYPE: _streams_groups,
}
_TYPE_OF_RECORD: Mapping[int, str] = {
    **dict.fromkeys(CONSUMER_GROUPS.record_types, CONSUMER_TYPE),
    **dict.fromkeys(range(10, 16), SHARE_TYPE),
    **dict.fromkeys((17, *range(19, 24)), STREAMS_TYPE),
}


def kind_of(group: ModernGroup) -> GroupKind:
    return _KINDS[group.group_type]()


def kind_of_record(record_type: int) -> GroupKind | None:
    """Return the type of groups to which a record belongs; None for records of classic groups and unknown ones."""
    group_type = _TYPE_OF_RECORD.get(record_type)
    return None if group_type is None else _KINDS[group_type]()
