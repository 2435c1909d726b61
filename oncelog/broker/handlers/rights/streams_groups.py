"""Steps of requests about streams groups (KIP-1071).

Owns: which topics of a topology a client must be allowed to describe. Does not own: the handlers, and the right to
create internal topics, which is asked where they are missing (`handlers.streams_group_heartbeat`).
"""

from collections.abc import Iterable
from typing import Any

from oncelog.broker.handlers.rights.members import check_member, show_groups
from oncelog.broker.handlers.shared.streams_topics import named_topics
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError

_HIDDEN = "The described group uses topics that the client is not authorized to describe."


def enabled_group(context: RequestContext, group_id: str) -> str | None:
    """Return the name of a group to check; None while streams groups are switched off: the handler says so, whatever
    the rights."""
    return group_id if context.broker.groups.streams.is_enabled else None


class Application:
    """StreamsGroupHeartbeat: Read on the group, Describe on each topic of the topology, if those are valid at all."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if not context.broker.groups.streams.is_enabled:
            return handle(context, request)
        topics = named_topics(request.topology) if _names_valid_topics(request) else ()
        return (yield from check_member(context, request, handle, topics))


def _names_valid_topics(request: Any) -> bool:
    from oncelog.broker.handlers.streams_group_heartbeat import check_names

    try:
        check_names(request)
    except KafkaError:
        return False
    return True


class Topologies:
    """StreamsGroupDescribe: a group shows itself only with Describe on every topic of its topology."""

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        return (yield from show_groups(context, request, handle, _named, _HIDDEN))


def _named(group: Any) -> Sliced[Iterable[str]]:
    names = named_topics(group.topology)
    yield len(names)
    return names
