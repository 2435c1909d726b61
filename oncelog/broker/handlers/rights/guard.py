"""Handlers behind their rights: the one place where a request meets what the descriptor of its API says of rights."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

from oncelog.broker.apis.descriptor import EachResource, EachRow, Needed, Operations, Own, Rights, Step, Visible
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.rights import (
    configs,
    groups,
    refusals,
    share_groups,
    streams_groups,
    topics,
    transactions,
)
from oncelog.broker.handlers.rights.checks import (
    NameOf,
    by_field,
    check_rows,
    is_given,
    itself,
    list_operations,
    refuse,
    show_rows,
)
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.api_keys import ApiKey

_MODULES: Mapping[str, ModuleType] = MappingProxyType(
    {
        "groups": groups,
        "share_groups": share_groups,
        "streams_groups": streams_groups,
        "topics": topics,
        "transactions": transactions,
    }
)
_Run = Callable[[RequestContext, Any, Handler], Sliced[Any]]


def guard(api: ApiKey, handle: Handler) -> Handler:
    """Return a handler of what is allowed; `handle` itself if the API needs no right."""
    rights = API_TABLE[api].rights
    if not rights.needs and not rights.steps:
        return handle
    runs = [run_of(step) for step in rights.steps]
    for run in reversed(runs[1:]):
        handle = _behind(run, handle)
    outermost = runs[0] if runs else None

    def guarded(context: RequestContext, request: Any) -> Any:
        return context.run(_checked(rights, outermost, context, request, handle, is_long=context.in_slices))

    return guarded


def _behind(run: _Run, handle: Handler) -> Handler:
    return lambda context, request: context.run(run(context, request, handle))


def _checked(
    rights: Rights, run: _Run | None, context: RequestContext, request: Any, handle: Handler, *, is_long: bool
) -> Sliced[Any]:
    context.in_slices = is_long  # to check rights in slices makes no response long
    for needed in rights.needs:
        if not is_given(needed, context, request):
            if needed.refusal:
                return refusal_of(needed)(context, request)
            return (yield from refuse(needed, context, request))
    if run is None:
        return handle(context, request)
    return (yield from run(context, request, handle))


def refusal_of(needed: Needed) -> Callable[[RequestContext, Any], Any]:
    """Return the function that makes the response, where that is more than an error at a place."""
    refusal: Callable[[RequestContext, Any], Any] = getattr(refusals, needed.refusal)
    return refusal


def run_of(step: Step) -> _Run:
    """Return the function that does the work of a step."""
    match step:
        case EachRow():
            return partial(check_rows, step, _name_of(step))
        case EachResource():
            return partial(configs.check_resources, step)
        case Visible():
            return partial(show_rows, step)
        case Operations():
            return partial(list_operations, step)
        case Own():
            run: _Run = _named(step.name)().run
            return run


def _name_of(each: EachRow) -> NameOf:
    if each.name_of:
        name_of: NameOf = _named(each.name_of)
        return name_of
    return by_field(each.name) if each.name else itself


def _named(name: str) -> Any:
    module, _, attribute = name.partition(".")
    return getattr(_MODULES[module], attribute)
