"""The handlers of some APIs, watched: what a request and its response say becomes facts for the witness.

Owns: which clients are watched, and in which turn. Does not own: which APIs (`broker.apis`), what they say (`facts`).
Invariant: a response passes unchanged, in the turn in which it is ready. Watched around fault injection, so that the
witness knows what the client is sent.
"""

from collections.abc import Callable
from typing import Any

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.requests.context import Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.witness import facts
from oncelog.broker.witness.witness import Witness
from oncelog.protocol.api_keys import ApiKey

OWN_CLIENT_IDS = frozenset(("oncelog", "oncelog-console", "oncelog-doctor", "oncelog-testing"))
"""Client ids of the command, the console and the fixture: they read what is not committed on purpose."""

_OnRequest = Callable[[Witness, RequestContext, Any], None]
_OnResponse = Callable[[Witness, RequestContext, Any, Any], None]


def around_handler(witness: Witness, api: ApiKey, handle: Handler) -> Handler:
    """Return the handler with the witness around it; the handler itself if the witness does not look at its API."""
    descriptor = API_TABLE[api]
    match descriptor.witnessed:
        case "request":
            return _before(getattr(facts, descriptor.name), witness, handle)
        case "response":
            return _after(getattr(facts, descriptor.name), witness, handle)
    return handle


def _before(watch: _OnRequest, witness: Witness, handle: Handler) -> Handler:
    def watched(context: RequestContext, request: Any) -> Any:
        if context.client_id not in OWN_CLIENT_IDS:
            watch(witness, context, request)
        return handle(context, request)

    return watched


def _after(watch: _OnResponse, witness: Witness, handle: Handler) -> Handler:
    def watched(context: RequestContext, request: Any) -> Any:
        if context.client_id in OWN_CLIENT_IDS:
            return handle(context, request)

        def answered(outcome: Any) -> Any:
            if isinstance(outcome, Pipelined):
                return Pipelined(outcome.completion, lambda done: answered(outcome.respond(done)))
            if isinstance(outcome, Completion):
                return outcome.map(answered)
            watch(witness, context, request, outcome)
            return outcome

        return answered(handle(context, request))

    return watched
