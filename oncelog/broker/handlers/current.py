"""Keeps back what a leader answers while another broker may already have led, where one may take over.

Owns: which answers wait. Does not own: the lease (`HeldLease`).
Invariant: an answer leaves once nobody else can have led until it was given, by this node's own clock; a node that has
lost its lease answers nothing any more. That is true of what was read, and of each refusal: a leader that was asleep
would refuse what producers did at the one after it.

What was appended is answered once it is durable, which needs the lease anyhow. What any node may answer does not wait:
settings, users, versions. Who leads does: clients that were told so by a leader that is cut off from its tables alone
would come back to it for as long as it is. Without an answer they ask another one. That holds for a leader that knows
no other node, too: the other may have been started because this one is cut off.
"""

from functools import partial
from typing import Any

from oncelog.broker.apis.standby import ELSEWHERE
from oncelog.broker.log.store import HeldLease
from oncelog.broker.requests.context import Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey

NAMING = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})
"""What names the leader."""
_OF_THE_LEADER = ELSEWHERE.keys() | {ApiKey.FETCH, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}


def around_handler(lease: HeldLease, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler whose answers wait; `handle` itself if any node may answer its API."""
    if api not in _OF_THE_LEADER and api not in NAMING:
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
