"""The types of a descriptor: what the broker's parts must know of one API.

Owns: the values. Does not own: the APIs (`clients`, `administration`), what the readers do with them. Invariant: a
descriptor is a value without behaviour, importable by every part of the broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

Fields = Mapping[str, Any]
_NONE: Fields = MappingProxyType({})
_NEWEST = 32_767


class Need(Enum):
    """A part that not every broker uses, as the module to import before the first request of an API that needs it."""

    GROUPS = "oncelog.broker.assembly.groups"
    """The group coordinator; WriteTxnMarkers needs it for markers in `__consumer_offsets`."""
    SHARE_GROUPS = "oncelog.broker.assembly.share_groups"
    """The part of the group coordinator that has share groups (KIP-932)."""
    STREAMS_GROUPS = "oncelog.broker.coordinator.group.streams.coordinator"
    """That which has streams groups (KIP-1071)."""
    TRANSACTIONS = "oncelog.broker.coordinator.transaction.shard_life"
    """A partition of `__transaction_state` that transactional ids are kept in."""
    SHARE_STATE = "oncelog.broker.assembly.share"
    """The share coordinator: few brokers have share groups."""
    SHARING = "oncelog.broker.assembly.sharing"
    """The share-partitions that members read."""
    SECURITY = "oncelog.broker.cluster.security_state"
    """Rules, quotas, users, tokens: few brokers have them."""


class Owner(Enum):
    """The node that answers where several share one set of tables, and one leads.

    A node that stands by answers ANY and EACH. To the rest it returns the error after which a client looks for the
    leader, the coordinator or the controller (`handlers.standby`). A leader answers ANY at once, and the rest once its
    lease is confirmed (`handlers.current`).
    """

    ANY = "any node, from the metadata log that all follow, or about itself"
    EACH = "each node, for what it has: one that stands by has no record, no group and no transaction"
    PARTITION = "the leader of the partitions"
    COORDINATOR = "the coordinator of the group or of the transactional id"
    CONTROLLER = "the controller"


# --- where a response has its errors ----------------------------------------------------------------------------------


class Rows(NamedTuple):
    """An array of the response with a row for each element of an array of the request."""

    asked: str
    answered: str
    kind: str
    """The row's class."""
    repeats: tuple[str, ...] = ()
    """The fields that a row copies from its element: fields of the same names, or the element if it is a value."""


Place = tuple[Rows, ...]
"""Where a response has an error: arrays, each within the rows of the one before, whose innermost rows have it. It is
empty for the response itself."""


class Errors(NamedTuple):
    """Where the responses of some versions have errors."""

    rows: Place = ()
    """The place of one error for each thing that the request names."""
    is_whole: bool = False
    """Whether the response itself has an error, which is that of a request refused as a whole."""
    field: str = "error_code"
    """The name of the error in a row."""
    until: int = _NEWEST
    """The last version that has its errors there."""

    @property
    def of_whole(self) -> Place:
        """The place of the error of a request that is refused as a whole: the response itself, or else every row."""
        return () if self.is_whole else self.rows


# --- rights -----------------------------------------------------------------------------------------------------------


class Right(NamedTuple):
    """An operation on a kind of resource."""

    operation: AclOperation
    resource: ResourceType


class Needed(NamedTuple):
    """A right without which the whole request is refused, on the resource that a field of the request names."""

    operation: AclOperation
    resource: ResourceType = ResourceType.CLUSTER
    name_field: str = ""
    """The field that names the resource; empty for the cluster."""
    said: Fields = _NONE
    """Fields that Kafka sets besides the error."""
    instead: AclOperation | None = None
    """Another operation on the same resource that is enough."""
    text: str | None = None
    refusal: str = ""
    """A function of `handlers.rights.refusals` that makes the response, where that is more than an error at a place."""

    @property
    def rights(self) -> Sequence[Right]:
        both = (self.operation,) if self.instead is None else (self.operation, self.instead)
        return [Right(operation, self.resource) for operation in both]


class EachRow(NamedTuple):
    """The right is needed for each row of the request; others get their error in the response."""

    operation: AclOperation
    resource: ResourceType
    name: str = "name"
    """The field that names a row's resource; empty if the row itself is the name."""
    name_of: str = ""
    """A function of a module of `handlers.rights`, where the name is more than a field."""
    said: Fields = _NONE
    """Fields that Kafka sets besides the error."""
    instead: Right | None = None
    """A right on the cluster that allows all rows."""
    needs_rows: bool = True
    """Whether there is nothing to handle if no row is allowed."""
    is_once: bool = False
    """Whether only a topic that is named once needs the right; to name one twice is an error of its own."""

    @property
    def rights(self) -> Sequence[Right]:
        own = Right(self.operation, self.resource)
        return [own] if self.instead is None else [own, self.instead]


class EachResource(NamedTuple):
    """The right is needed on each resource whose settings the request names."""

    operation: AclOperation

    @property
    def rights(self) -> Sequence[Right]:
        resources = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
        return [Right(self.operation, resource) for resource in resources]


class Visible(NamedTuple):
    """The response has only the rows for which the client has the right; to ask for them is no denied attempt."""

    operation: AclOperation
    resource: ResourceType
    rows: str
    name: str
    """The fields of the response, and of a row."""
    instead: Right | None = None
    """A right on the cluster that makes all rows visible."""

    @property
    def rights(self) -> Sequence[Right]:
        own = Right(self.operation, self.resource)
        return [own] if self.instead is None else [own, self.instead]


class Operations(NamedTuple):
    """The response says which operations the client may do on the resource of each row (KIP-430), if it asked."""

    resource: ResourceType
    rows: str
    name: str
    operations: str
    """The fields of the response, and of a row."""

    @property
    def rights(self) -> Sequence[Right]:
        return ()


class Own(NamedTuple):
    """A step that no other API has."""

    name: str
    """The step as MODULE.CLASS in `handlers.rights`."""
    rights: Sequence[Right] = ()


Step = EachRow | EachResource | Visible | Operations | Own
"""A check of the rows of a request or of its response."""


class Rights(NamedTuple):
    """The rights that the requests of an API need, as Kafka 4.3's brokers and controllers check them."""

    needs: tuple[Needed, ...] = ()
    steps: tuple[Step, ...] = ()
    """The steps, the outermost first."""
    inside: tuple[Right, ...] = ()
    """The rights that the handler itself checks."""
    free: str = ""
    """The reason why no right is needed."""

    @property
    def all(self) -> Sequence[Right]:
        """Every right that a request of this API can need, each once."""
        own = [right for each in (*self.needs, *self.steps) for right in each.rights]
        return list(dict.fromkeys((*own, *self.inside)))


# --- one error for every request --------------------------------------------------------------------------------------


class Refused(NamedTuple):
    """The answer of a read-only broker: this error, where `Errors` has that of a whole request."""

    error: ErrorCode
    others: Fields = _NONE
    """Fields besides the error, as Kafka sets them then."""
    has_message: bool = False


READS = None
"""A read-only broker handles the API as always: it changes nothing."""


# --- the descriptor ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API that this broker serves."""

    key: ApiKey
    minimum: int
    """The lowest version served: Kafka 4's (KIP-896)."""
    maximum: int
    """The highest version served. A version is listed only if it works."""
    _: KW_ONLY
    owner: Owner
    """The node that answers where there are several."""
    rights: Rights
    """The rights that a client needs where there is an authorizer; or why it needs none."""
    read_only: Refused | None
    """The answer of a read-only broker; READS if the API changes nothing."""
    errors: tuple[Errors, ...] = (Errors(is_whole=True),)
    """Where its responses have errors, by version; the oldest first."""
    needs: tuple[Need, ...] = ()
    """The parts to import before its first request."""
    is_frequent: bool = False
    """Whether clients send it in normal operation: then `make generate` writes the code of its messages ahead."""
    names_leader: bool = False
    """Whether the response names the leading node: it must not name one that may have been followed by another."""
    from_any_node: bool = False
    """Whether clients send what the CONTROLLER owns to any node, as Kafka's brokers forward it."""
    transaction_v2_since: int | None = None
    """The first version under transaction version 2 (KIP-890): it implies that of a transaction."""
    topic_ids_since: int | None = None
    """The first version whose rows name a topic by its id alone (KIP-516); None if they name it, or each says how."""
    advertised_minimum: int | None = None
    """The lowest version listed, where it differs."""
    unstable_maximum: int | None = None
    """The highest version that Kafka may still change: served and listed only if enabled."""
    on_fault: Literal["refused", "handled", "no place"] = "refused"
    """How a fault rule returns an error: the request is refused as a whole; or handled, as it only reads, and its
    errors replaced; or there is no place for an error, and the rule is rejected."""
    is_charged: bool = True
    """Whether its clients are charged for quotas."""
    witnessed: Literal["request", "response"] | None = None
    """When the witness looks at the API, by the function of this name in `witness.facts`."""
    left_out: str = ""
    """The work of Kafka's broker behind this API that is left out here, and why: for docs/compare/compatibility.md."""

    @property
    def name(self) -> str:
        """Part of module names: protocol.generated.NAME_request, broker.handlers.NAME."""
        return self.key.name.lower()

    @property
    def handler(self) -> str:
        """The module that handles its requests."""
        return f"oncelog.broker.handlers.{self.name}"

    def highest(self, with_unstable: bool) -> int:
        return self.unstable_maximum if with_unstable and self.unstable_maximum is not None else self.maximum

    def errors_in(self, version: int) -> Errors:
        """Return where the responses of this version have errors."""
        return next(errors for errors in self.errors if version <= errors.until)
