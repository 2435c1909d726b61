"""How rights are checked: one that a whole request needs, and steps for the rows that it has.

Owns: how rows are taken out of a request and errors put into a response. Does not own: which API needs which
(`broker.apis`).
Invariant: what is not allowed reaches no handler, and nothing of what exists shows in its error.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oncelog.broker.apis.descriptor import EachRow, Errors, Needed, Operations, Right, Visible
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.topics import METADATA_TOPIC

DENIED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a missing right, by the type of the resource."""


def may(
    context: RequestContext,
    operation: AclOperation,
    resource: ResourceType,
    name: str | None = CLUSTER_NAME,
    *,
    quietly: bool = False,
) -> bool:
    """Whether the client may do that. With `quietly` the audit log does not name a denial: it is no denied attempt."""
    peer, authorizer = context.peer, context.broker.authorizer
    request = None if quietly else ApiKey(context.api_key).name
    return authorizer is None or authorizer.allows(peer.principal, peer.host, operation, resource, name, request)


def may_create_topic(context: RequestContext, name: str) -> bool:
    """Create, on the cluster or on the topic."""
    return may(context, AclOperation.CREATE, ResourceType.CLUSTER, quietly=True) or may(
        context, AclOperation.CREATE, ResourceType.TOPIC, name
    )


def after(outcome: Any, change: Callable[[Any], Any]) -> Any:
    """Return what a handler has returned, with the response changed once it is there."""
    if isinstance(outcome, Pipelined):
        return Pipelined(outcome.completion, lambda done: after(outcome.respond(done), change))
    if isinstance(outcome, Completion):
        return outcome.map(lambda response: after(response, change))
    return change(outcome)


def replaced(message: Any, **fields: Any) -> Any:
    """Return the message with other values of these fields."""
    return type(message)(**({name: getattr(message, name) for name in message.FIELDS} | fields))


def is_given(needed: Needed, context: RequestContext, request: Any) -> bool:
    """Whether the client has a right that the whole request needs."""
    name = getattr(request, needed.name_field) if needed.name_field else CLUSTER_NAME
    if needed.instead is not None and may(context, needed.instead, needed.resource, name, quietly=True):
        return True
    return may(context, needed.operation, needed.resource, name)


def refuse(needed: Needed, context: RequestContext, request: Any) -> Sliced[Any]:
    """Return the response to a request that lacks the right."""
    said = {"error_code": DENIED[needed.resource], **needed.said}
    if needed.text is not None:
        said["error_message"] = needed.text
    return (yield from response_with(context.api_key, request, errors_of(context).of_whole, **said))


def errors_of(context: RequestContext) -> Errors:
    """Return where the response to this request has errors."""
    return API_TABLE[context.api_key].errors_in(context.api_version)


NameOf = Callable[[RequestContext, Any], str | None]
"""Returns the name of a row's resource; None for one that does not exist: the handler reports that."""


def by_field(name: str) -> NameOf:
    def name_of(_: RequestContext, row: Any) -> str | None:
        value: str = getattr(row, name)
        return value

    return name_of


def itself(_: RequestContext, row: str) -> str:
    return row


def named_once(rows: Iterable[Any]) -> NameOf:
    """Return a function for the names of topics that these rows name once; None for a topic that no request can
    create."""
    counts = Counter(row.name for row in rows)

    def name_of(_: RequestContext, row: Any) -> str | None:
        return row.name if counts[row.name] == 1 and row.name != METADATA_TOPIC else None

    return name_of


def split(
    context: RequestContext, rows: Iterable[Any], right: Right, name_of: NameOf, *, quietly: bool = False
) -> Sliced[tuple[list[Any], list[Any]]]:
    """Return the rows for which the client has the right or that have no name to ask for, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for row in rows:
        name = name_of(context, row)
        is_allowed = name is None or may(context, *right, name, quietly=quietly)
        (allowed if is_allowed else denied).append(row)
        yield 1
    return allowed, denied


def check_rows(each: EachRow, name_of: NameOf, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
    if each.instead is not None and may(context, *each.instead, quietly=True):
        return handle(context, request)
    place = errors_of(context).rows
    asked = place[0].asked
    rows = getattr(request, asked) or ()
    if each.is_once:
        name_of = named_once(rows)
    allowed, denied = yield from split(context, rows, Right(each.operation, each.resource), name_of)
    if not denied:
        return handle(context, request)
    said = {"error_code": DENIED[each.resource], **each.said}
    refused = yield from response_with(context.api_key, replaced(request, **{asked: denied}), place, **said)
    if each.needs_rows and not allowed:
        return refused
    outcome = handle(context, replaced(request, **{asked: allowed}))
    return after(outcome, lambda response: joined(response, refused, place[0].answered))


def joined(response: Any, refused: Any, rows: str) -> Any:
    """Return the response with the rows of both, unless the first is an error of the whole."""
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    return replaced(response, **{rows: [*getattr(response, rows), *getattr(refused, rows)]})


def show_rows(visible: Visible, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
    yield 1
    outcome = handle(context, request)
    if visible.instead is not None and may(context, *visible.instead, quietly=True):
        return outcome
    return after(outcome, lambda response: context.run(_shown(visible, context, response)))


def _shown(visible: Visible, context: RequestContext, response: Any) -> Sliced[Any]:
    right = Right(visible.operation, visible.resource)
    shown, _ = yield from split(context, getattr(response, visible.rows), right, by_field(visible.name), quietly=True)
    return replaced(response, **{visible.rows: shown})


def list_operations(listed: Operations, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
    yield 1
    return after(handle(context, request), lambda response: context.run(_filled(listed, context, response)))


def _filled(listed: Operations, context: RequestContext, response: Any) -> Sliced[Any]:
    rows = []
    for row in getattr(response, listed.rows):
        if getattr(row, listed.operations) > 0:  # all of them: asked for, and not an error
            allowed = allowed_operations(context, listed.resource, getattr(row, listed.name))
            row = replaced(row, **{listed.operations: allowed})
            yield 4
        rows.append(row)
        yield 1
    return replaced(response, **{listed.rows: rows})


def allowed_operations(context: RequestContext, resource: ResourceType, name: str | None) -> int:
    """Return the allowed operations as a bit set; the name of an unknown topic is None."""
    peer, authorizer = context.peer, context.broker.authorizer
    if authorizer is None:
        raise RuntimeError("operations are listed by an authorizer")
    return authorizer.operations(peer.principal, peer.host, resource, name or "")
