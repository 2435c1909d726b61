"""What the steps of consumer, share and streams groups have in common: a member's rights, and when a group is shown.

Owns: the checks of a heartbeat and of a Describe response. Does not own: which topics a request or a group names
(`groups`, `share_groups`, `streams_groups`).
"""

from collections.abc import Callable, Iterable
from typing import Any

from oncelog.broker.handlers.rights.checks import DENIED, after, may, replaced
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
SOME_TOPIC_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."
Names = Callable[[Any], Sliced[Iterable[str]]]
"""Returns the names of the topics of a group in a response, each once."""


def check_member(context: RequestContext, request: Any, handle: Handler, topics: Iterable[str]) -> Sliced[Any]:
    """Handle a heartbeat with Read on its group and Describe on each of the topics; else it is refused."""
    error = ErrorCode.NONE
    if not may(context, AclOperation.READ, _GROUP, request.group_id):
        error = DENIED[_GROUP]
    else:
        for name in topics:
            yield 1
            if not may(context, AclOperation.DESCRIBE, _TOPIC, name):
                error = DENIED[_TOPIC]
    if error is ErrorCode.NONE:
        return handle(context, request)
    return (yield from response_with(context.api_key, request, (), error_code=error))


def show_groups(context: RequestContext, request: Any, handle: Handler, names_of: Names, hidden: str) -> Sliced[Any]:
    """Describe groups; one of whose topics the client may not describe is an error with the message `hidden`."""

    def shown(response: Any) -> Sliced[Any]:
        groups = []
        for group in response.groups:
            names = yield from names_of(group)
            if not all(may(context, AclOperation.DESCRIBE, _TOPIC, name) for name in names):
                group = type(group)(group_id=group.group_id, error_code=DENIED[_TOPIC], error_message=hidden)
            groups.append(group)
            yield 1
        return replaced(response, groups=groups)

    yield 1
    return after(handle(context, request), lambda response: context.run(shown(response)))


def assigned_topics(group: Any, *kinds: str) -> Sliced[Iterable[str]]:
    """Return the topics of which members have partitions; `kinds` are the fields of a member with an assignment."""
    names: dict[str, None] = {}
    for member in group.members:
        for kind in kinds:
            assigned = getattr(member, kind).topic_partitions
            names.update(dict.fromkeys(each.topic_name for each in assigned))
            yield 1 + len(assigned)
    return names
