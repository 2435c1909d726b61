"""Handlers behind their rights: the one place where a request meets the table."""

from typing import Any

from oncelog.broker.handlers.rights.table import RIGHTS, Rights
from oncelog.broker.request import Handler, RequestContext
from oncelog.broker.slices import Sliced
from oncelog.protocol.api_keys import ApiKey


def guard(api: ApiKey, handle: Handler) -> Handler:
    """The handler, for what is allowed; itself if the API needs no right. Raises KeyError for an API without a row."""
    rights = RIGHTS[api]
    if not rights.needs and rights.step is None:
        return handle

    def guarded(context: RequestContext, request: Any) -> Any:
        return context.run(_checked(rights, context, request, handle, is_long=context.in_slices))

    return guarded


def _checked(rights: Rights, context: RequestContext, request: Any, handle: Handler, *, is_long: bool) -> Sliced[Any]:
    context.in_slices = is_long  # to check rights in slices makes no response long
    for needed in rights.needs:
        if not needed.is_given(context, request):
            return (yield from needed.refuse(context, request))
    if rights.step is None:
        return handle(context, request)
    return (yield from rights.step.run(context, request, handle))
