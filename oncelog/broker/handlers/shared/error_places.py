"""Responses with one error, whatever the request: at the top, or in a row for each row of the request.

Owns: building such a response, for any API. Does not own: which error, and where in the response of which API, which
descriptors say (`broker.apis`).
"""

from importlib import import_module
from typing import Any

from oncelog.broker.apis.descriptor import Place, Rows
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.message import Message


def response_module(api_key: int) -> Any:
    return import_module(f"oncelog.protocol.generated.{API_TABLE[api_key].name}_response")


def response_with(api_key: int, request: Any, place: Place, **said: Any) -> Sliced[Any]:
    """Return the response with these fields at that place."""
    module = response_module(api_key)
    new = getattr(module, module.NAME)
    return new(**(yield from _array(module, request, place, said))) if place else new(**said)


def _array(module: Any, asked: Any, place: Place, said: dict[str, Any]) -> Sliced[dict[str, Any]]:
    """Return the array of the first rows of this place."""
    rows, inner = place[0], place[1:]
    elements = getattr(asked, rows.asked) or ()
    new = getattr(module, rows.kind)
    if not inner and not rows.repeats:
        return {rows.answered: [new(**said)] * len(elements)}
    answers = []
    for element in elements:
        own = said
        if inner:
            own = yield from _array(module, element, inner, said)
        answers.append(new(**own, **_copied_fields(rows, element)))
        yield 1
    return {rows.answered: answers}


def _copied_fields(rows: Rows, element: Any) -> dict[str, Any]:
    if isinstance(element, Message):
        return {name: getattr(element, name) for name in rows.repeats}
    return dict.fromkeys(rows.repeats, element)
