"""AlterUserScramCredentials (51), version 0: there are none to delete, and none can be made (KIP-554).

Kafka keeps what it is given. Here SECURITY_DISABLED tells that nobody would ever be asked for it.
"""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from protocol.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

_NONE_TO_DELETE = "Attempt to delete a user credential that does not exist"
_NONE_TO_MAKE = "This broker has no listener with SASL: nobody is asked for credentials."


def handle(_: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    texts = {deletion.name: (ErrorCode.RESOURCE_NOT_FOUND, _NONE_TO_DELETE) for deletion in request.deletions}
    texts |= {upsertion.name: (ErrorCode.SECURITY_DISABLED, _NONE_TO_MAKE) for upsertion in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=text)
            for name, (error, text) in texts.items()
        ]
    )
