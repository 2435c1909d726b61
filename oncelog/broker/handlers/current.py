"""Keeps back what was read while another broker may already have led, where one may take over.

Owns: which answers wait. Does not own: the lease (`HeldLease`).
Invariant: an answer to a read leaves once nobody else can have led until it was read, by this node's own clock; a node
that has lost its lease answers no read any more.

What changes something is answered once it is durable, which needs the lease anyhow.
"""

from functools import partial
from typing import Any

from oncelog.broker.log.store import HeldLease
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey

_READS = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    }
)


def around_handler(lease: HeldLease, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler whose answers wait; `handle` itself if its API reads no records, offsets or states."""
    if api not in _READS:
        return handle

    current = partial(_current, lease)

    def answer(context: RequestContext, request: Any) -> Any:
        outcome = handle(context, request)
        return outcome.map(current) if isinstance(outcome, Completion) else current(outcome)

    return answer


def _current(lease: HeldLease, response: Any) -> Any:
    return response if lease.is_ours else lease.when_confirmed().map(lambda _: response)
