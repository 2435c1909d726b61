"""Keeps back the responses of a leader while another broker may already have led, where one may take over.

Owns: which responses wait. Does not own: the owner of an API (`broker.apis`), the lease (`HeldLease`).
Invariant: a response leaves once no other node can have led before it was made, by this node's own clock; a node that
has lost its lease responds no more. That is true of what was read, and of each refusal: a leader that was asleep would
refuse what producers did at the one after it.

What was appended is answered once it is durable, which needs the lease anyhow. What any node may answer does not wait:
settings, users, versions. The name of the leader does: from a leader that is cut off from its tables alone, clients
would learn its own name, and return to it for as long as it is. Without a response they ask another one. That holds for
a leader that knows no other node, too: the other may have been started because this one is cut off.
"""

from functools import partial
from typing import Any

from oncelog.broker.apis.descriptor import Owner
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.log.store import HeldLease
from oncelog.broker.requests.context import Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey


def around_handler(lease: HeldLease, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler whose answers wait; `handle` itself if any node may answer its API."""
    described = API_TABLE[api]
    if described.owner is Owner.ANY and not described.names_leader:
        return handle

    current = partial(_current, lease)

    def answer(context: RequestContext, request: Any) -> Any:
        return current(handle(context, request))

    return answer


def _current(lease: HeldLease, outcome: Any) -> Any:
    if isinstance(outcome, Completion):
        return outcome.map(partial(_current, lease))
    if isinstance(outcome, Pipelined):
        if not outcome.completion.done:
            return outcome
        return Pipelined(outcome.completion, lambda done: _current(lease, outcome.respond(done)))
    if outcome is None or lease.is_ours:
        return outcome
    return lease.when_confirmed().map(lambda _: outcome)
