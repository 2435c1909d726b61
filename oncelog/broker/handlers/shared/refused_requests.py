"""The response to a request that is refused as a whole, though its API is served.

Owns: what differs for one API from the place of its errors. Does not own: why it is refused.
"""

from typing import Any

from oncelog.broker.apis.descriptor import Place, Refused
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.handlers.shared.error_places import response_with
from oncelog.broker.requests.context import CloseConnection
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def refused_response(
    api: ApiKey, refused: Refused, version: int, request: Any, reason: str, place: Place | None = None
) -> Sliced[Any]:
    """The error is at `place`, or where that of a whole request is. Raises CloseConnection for Produce with acks=0,
    which has no response."""
    errors = API_TABLE[api].errors_in(version)
    said: dict[str, Any] = {errors.field: refused.error, **refused.others}
    if refused.has_message:
        said["error_message"] = reason
    match api:
        case ApiKey.PRODUCE if request.acks == 0:
            raise CloseConnection(f"Produce with acks=0: {reason}")
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
            return AlterUserScramCredentialsResponse(
                results=[AlterUserScramCredentialsResult(user=user, **said) for user in users]
            )
    return (yield from response_with(api, request, errors.of_whole if place is None else place, **said))
