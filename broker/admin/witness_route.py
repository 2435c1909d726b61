"""What the witness has found, for `GET /witness` of both HTTP listeners.

Owns: the response, also where there is no witness. Does not own: the findings (`broker.witness`).
"""

from typing import TYPE_CHECKING

from oncelog.broker.admin.messages import HttpError, Response

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def witness_response(broker: "Broker") -> Response:
    """Raises HttpError."""
    if broker.witness is None:
        raise HttpError(404, "the witness is off: start the broker with --override oncelog.witness.enable=true")
    return Response(200, broker.witness.report().as_json())
