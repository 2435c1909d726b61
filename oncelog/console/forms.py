"""Forms that browsers send, read strictly.

Owns: how much a form may be. Does not own: who may send one (`security`), what its fields mean.
"""

from urllib.parse import parse_qsl

from starlette.requests import Request

from oncelog.console.query import BadQuery, Query

MOST_BYTES = 4 * 1024 * 1024
"""A record of max.request.size, 1 MiB, whose every third byte is written as three."""
_MOST_FIELDS = 32


async def form_of(request: Request) -> Query:
    """Return the fields of a form, with LF for the CR LF that browsers write. Raises BadQuery."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise BadQuery(f"the form is larger than {MOST_BYTES} bytes")
    try:
        fields = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:  # also what is not UTF-8
        raise BadQuery(f"the form cannot be read: {error}") from None
    return Query({name: value.replace("\r\n", "\n") for name, value in fields})
