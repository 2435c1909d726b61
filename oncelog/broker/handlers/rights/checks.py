"""The parts of the table of rights: a right that a whole request needs, and steps for the rows that it has.

Owns: how rows are taken out of a request and errors put into a response. Does not own: which API has which
(`broker.handlers.rights.table`).
Invariant: what is not allowed reaches no handler, and nothing of what exists shows in its error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from oncelog.broker.completion import Completion
from oncelog.broker.handlers.shared.error_places import Place, response_with
from oncelog.broker.request import Handler, Pipelined, RequestContext
from oncelog.broker.slices import Sliced
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

DENIED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a missing right, by the type of the resource."""


class Right(NamedTuple):
    operation: AclOperation
    resource: ResourceType


def may(
    context: RequestContext,
    operation: AclOperation,
    resource: ResourceType,
    name: str | None = CLUSTER_NAME,
    *,
    quietly: bool = False,
) -> bool:
    """Whether the client may do that; `quietly` where a denial is no denied attempt, which the audit log would name."""
    peer, authorizer = context.peer, context.broker.authorizer
    request = None if quietly else ApiKey(context.api_key).name
    return authorizer is None or authorizer.allows(peer.principal, peer.host, operation, resource, name, request)


def may_create_topic(context: RequestContext, name: str) -> bool:
    """Create, on the cluster or on the topic."""
    return may(context, AclOperation.CREATE, ResourceType.CLUSTER, quietly=True) or may(
        context, AclOperation.CREATE, ResourceType.TOPIC, name
    )


def after(outcome: Any, change: Callable[[Any], Any]) -> Any:
    """What a handler has returned, with the response changed once it is there."""
    if isinstance(outcome, Pipelined):
        return Pipelined(outcome.completion, lambda done: after(outcome.respond(done), change))
    if isinstance(outcome, Completion):
        return outcome.map(lambda response: after(response, change))
    return change(outcome)


def replaced(message: Any, **fields: Any) -> Any:
    """The message with other values of these fields."""
    return type(message)(**({name: getattr(message, name) for name in message.FIELDS} | fields))


@dataclass(frozen=True, slots=True)
class Needed:
    """A right without which the whole request is refused, on the resource that a field of the request names."""

    operation: AclOperation
    resource: ResourceType = ResourceType.CLUSTER
    name_field: str = ""
    """Empty: the cluster."""
    place: Place = ()
    """Where the response has the error."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """Fields that Kafka sets besides the error."""
    instead: AclOperation | None = None
    """Another operation on the same resource that is enough."""
    text: str | None = None
    refusal: Callable[[RequestContext, Any], Any] | None = None
    """Makes the response where it is more than an error at a place."""

    @property
    def rights(self) -> Sequence[Right]:
        both = (self.operation,) if self.instead is None else (self.operation, self.instead)
        return [Right(operation, self.resource) for operation in both]

    def is_given(self, context: RequestContext, request: Any) -> bool:
        name = getattr(request, self.name_field) if self.name_field else CLUSTER_NAME
        if self.instead is not None and may(context, self.instead, self.resource, name, quietly=True):
            return True
        return may(context, self.operation, self.resource, name)

    def refuse(self, context: RequestContext, request: Any) -> Sliced[Any]:
        if self.refusal is not None:
            return self.refusal(context, request)
        said = {"error_code": DENIED[self.resource], **self.said}
        if self.text is not None:
            said["error_message"] = self.text
        return (yield from response_with(context.api_key, request, self.place, **said))


class Step(Protocol):
    """What is checked in the rows of a request or of its response."""

    @property
    def rights(self) -> Sequence[Right]: ...

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        """What a handler returns."""


NameOf = Callable[[RequestContext, Any], str | None]
"""The name of a row's resource; None for one that does not exist: the handler reports that."""


def by_field(name: str) -> NameOf:
    def name_of(_: RequestContext, row: Any) -> str | None:
        value: str = getattr(row, name)
        return value

    return name_of


def itself(_: RequestContext, row: str) -> str:
    return row


def split(
    context: RequestContext, rows: Iterable[Any], right: Right, name_of: NameOf, *, quietly: bool = False
) -> Sliced[tuple[list[Any], list[Any]]]:
    """The rows for which the client has the right, or that have no name to ask for; and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for row in rows:
        name = name_of(context, row)
        is_allowed = name is None or may(context, *right, name, quietly=quietly)
        (allowed if is_allowed else denied).append(row)
        yield 1
    return allowed, denied


@dataclass(frozen=True, slots=True)
class EachRow:
    """The right is needed for each row of the request; others get their error in the response."""

    operation: AclOperation
    resource: ResourceType
    place: Place
    name_of: NameOf
    said: Mapping[str, Any] = field(default_factory=dict)
    instead: Right | None = None
    """On the cluster: all rows are allowed."""
    needs_rows: bool = True
    """Whether there is nothing to handle if no row is allowed."""

    @property
    def rights(self) -> Sequence[Right]:
        own = Right(self.operation, self.resource)
        return [own] if self.instead is None else [own, self.instead]

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        if self.instead is not None and may(context, *self.instead, quietly=True):
            return handle(context, request)
        asked = self.place[0].asked
        right = Right(self.operation, self.resource)
        allowed, denied = yield from split(context, getattr(request, asked) or (), right, self.name_of)
        if not denied:
            return handle(context, request)
        said = {"error_code": DENIED[self.resource], **self.said}
        refused = yield from response_with(context.api_key, replaced(request, **{asked: denied}), self.place, **said)
        if self.needs_rows and not allowed:
            return refused
        outcome = handle(context, replaced(request, **{asked: allowed}))
        return after(outcome, lambda response: joined(response, refused, self.place[0].answered))


def joined(response: Any, refused: Any, rows: str) -> Any:
    """With the rows of both, unless the first is an error of the whole."""
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    return replaced(response, **{rows: [*getattr(response, rows), *getattr(refused, rows)]})


@dataclass(frozen=True, slots=True)
class Visible:
    """The response has only the rows for which the client has the right; to ask for them is no denied attempt."""

    operation: AclOperation
    resource: ResourceType
    rows: str
    name: str
    instead: Right | None = None
    """On the cluster: all rows are visible."""

    @property
    def rights(self) -> Sequence[Right]:
        own = Right(self.operation, self.resource)
        return [own] if self.instead is None else [own, self.instead]

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        yield 1
        outcome = handle(context, request)
        if self.instead is not None and may(context, *self.instead, quietly=True):
            return outcome
        return after(outcome, lambda response: context.run(self._shown(context, response)))

    def _shown(self, context: RequestContext, response: Any) -> Sliced[Any]:
        right = Right(self.operation, self.resource)
        shown, _ = yield from split(context, getattr(response, self.rows), right, by_field(self.name), quietly=True)
        return replaced(response, **{self.rows: shown})


@dataclass(frozen=True, slots=True)
class Operations:
    """The response says which operations the client may do on the resource of each row (KIP-430), if it asked."""

    resource: ResourceType
    rows: str
    name: str
    operations: str
    """Fields of a row."""

    @property
    def rights(self) -> Sequence[Right]:
        return ()

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        yield 1
        return after(handle(context, request), lambda response: context.run(self._filled(context, response)))

    def _filled(self, context: RequestContext, response: Any) -> Sliced[Any]:
        rows = []
        for row in getattr(response, self.rows):
            if getattr(row, self.operations) > 0:  # all of them: asked for, and not an error
                allowed = allowed_operations(context, self.resource, getattr(row, self.name))
                row = replaced(row, **{self.operations: allowed})
                yield 4
            rows.append(row)
            yield 1
        return replaced(response, **{self.rows: rows})


def allowed_operations(context: RequestContext, resource: ResourceType, name: str | None) -> int:
    """As a bit set; the name of an unknown topic is None."""
    peer, authorizer = context.peer, context.broker.authorizer
    if authorizer is None:
        raise RuntimeError("operations are listed by an authorizer")
    return authorizer.operations(peer.principal, peer.host, resource, name or "")


@dataclass(frozen=True, slots=True)
class Then:
    """One step around another."""

    outer: Step
    inner: Step

    @property
    def rights(self) -> Sequence[Right]:
        return [*self.outer.rights, *self.inner.rights]

    def run(self, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
        def inner(context: RequestContext, request: Any) -> Any:
            return context.run(self.inner.run(context, request, handle))

        return (yield from self.outer.run(context, request, inner))
