"""Steps of requests about streams groups (KIP-1071).

Owns: which topics of a topology a client must be allowed to describe. Does not own: the handlers, and the right to
create internal topics, which is asked where they are missing (`handlers.streams_group_heartbeat`).
"""

from typing import Any

from oncelog.broker.handlers.rights.checks import DENIED, after, may, replaced
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.handlers.shared.streams_topics import named_topics
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import KafkaError

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
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
        if not may(context, AclOperation.READ, _GROUP, request.group_id):
            return (yield from response_with(context.api_key, request, (), error_code=DENIED[_GROUP]))
        if _names_valid_topics(request):
            is_allowed = True
            for name in named_topics(request.topology):
                yield 1
                is_allowed &= may(context, AclOperation.DESCRIBE, _TOPIC, name)
            if not is_allowed:
                return (yield from response_with(context.api_key, request, (), error_code=DENIED[_TOPIC]))
        return handle(context, request)


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
        yield 1
        return after(handle(context, request), lambda response: context.run(_shown(context, response)))


def _shown(context: RequestContext, response: Any) -> Sliced[Any]:
    groups = []
    for group in response.groups:
        names = named_topics(group.topology)
        yield 1 + len(names)
        if not all(may(context, AclOperation.DESCRIBE, _TOPIC, name) for name in names):
            group = type(group)(group_id=group.group_id, error_code=DENIED[_TOPIC], error_message=_HIDDEN)
        groups.append(group)
    return replaced(response, groups=groups)
