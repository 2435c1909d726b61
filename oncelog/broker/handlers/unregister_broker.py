"""UnregisterBroker (64), version 0: there is no other broker, and this one cannot leave itself (KIP-631)."""

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.unregister_broker_request import UnregisterBrokerRequest
from oncelog.protocol.generated.unregister_broker_response import UnregisterBrokerResponse


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if request.broker_id == context.broker.leadership.node_id:
        text = f"Broker ID {request.broker_id} is the only broker of the cluster and cannot be unregistered"
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    text = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text)
