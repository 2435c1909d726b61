"""The APIs without an implementation on this broker: each request gets one error, Kafka's where it has the feature
switched off, in the field where Kafka sets it.

Owns: this response. Does not own: the error, the text and the field of each API (`broker.apis`), responses that depend
on the request (separate modules).
"""

from typing import Any

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.turns.slices import Sliced

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""How many elements a refusal has at most: more rows would only be rejected too."""


def handle(context: RequestContext, request: Any) -> Sliced[Any]:
    api = API_TABLE[context.api_key]
    refusal = api.refusal
    if refusal is None:
        raise RuntimeError(f"{api.name} is not refused")
    said = {"error_code": refusal.error, **refusal.others}
    if refusal.message is not None:
        said["error_message"] = refusal.message
    place = api.errors_in(context.api_version).of_whole
    return (yield from response_with(context.api_key, request, place, **said))
