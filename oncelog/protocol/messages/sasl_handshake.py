"""SaslHandshake (17): request and response.

KIPs: 43 (SASL mechanisms), 152 (SASL inside Kafka's protocol).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int16, String

# Version 1 supports SASL_AUTHENTICATE.
# NOTE: Version cannot be easily bumped due to incorrect
# client negotiation for clients <= 2.4.
# See https://issues.apache.org/jira/browse/KAFKA-9577
SASL_HANDSHAKE_REQUEST = Schema(
    "SaslHandshakeRequest",
    api_key=17,
    versions="0-1",
    flexible="",
    fields=(Field("mechanism", String),),
)

# Version 1 is the same as version 0.
# NOTE: Version cannot be easily bumped due to incorrect
# client negotiation for clients <= 2.4.
# See https://issues.apache.org/jira/browse/KAFKA-9577
SASL_HANDSHAKE_RESPONSE = Schema(
    "SaslHandshakeResponse",
    api_key=17,
    versions="0-1",
    flexible="",
    fields=(
        Field("error_code", Int16),
        Field("mechanisms", ArrayOf(String)),
    ),
)
