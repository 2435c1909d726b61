"""What a listener speaks, found out by asking it: why a connection to it ends before anything is served.

Owns: the comparison with this client's options, in words. Does not own: connections (`transport`). Invariant: it
names no protocol that the listener has not spoken; a listener that cannot be asked is no reason to give up.

A broker ends a connection that begins in another protocol, and cannot say why. From the outside the first four answer
alike, and so would a broker that is just stopping:

| the listener | a client of | sees |
|---|---|---|
| PLAINTEXT | SSL | the connection closed: the first bytes look like a length of 369 MB |
| SSL | PLAINTEXT | the connection closed, perhaps behind an alert |
| SASL_PLAINTEXT | PLAINTEXT | versions, then the connection closed at the first request |
| SASL_SSL | SSL | the same |
| PLAINTEXT, SSL | SASL | an error for the login, which needs no explanation |
"""

import asyncio
import ssl
from collections.abc import Sequence

from oncelog.client.values.errors import AuthenticationFailed, ConfigError, KafkaError
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.login import SASL_HANDSHAKE
from oncelog.client.wire.security import Security, SecurityProtocol
from oncelog.client.wire.transport import Transport, tls_error
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest

_PATIENCE_MS = 1_000
_NO_MECHANISM = "?"
"""A mechanism that no listener has, so that one with logins answers with those that it has."""
_SPOKEN: dict[tuple[bool, bool], SecurityProtocol] = {
    (False, False): "PLAINTEXT",
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""The protocol of a listener, by whether it has TLS and whether it requires a login."""


async def check_listener(address: str, security: Security, deadline: Deadline) -> None:
    """Raises ConfigError if the listener speaks, and not as `security` has it."""
    has_tls = security.context is not None
    give_up = deadline.capped(_PATIENCE_MS)
    for context in (None if has_tls else _unverified(), security.context):
        mechanisms: Sequence[str] | None
        try:
            mechanisms = await _mechanisms(address, context, give_up)
        except AuthenticationFailed:
            if has_tls:
                return
            mechanisms = ()  # it wants a certificate before anything else, most often instead of a login
        if mechanisms is None:
            continue
        spoken = _SPOKEN[context is not None, bool(mechanisms)]
        if spoken != security.protocol:
            offered = f", with {', '.join(mechanisms)}" if mechanisms else ""
            raise ConfigError(
                f"the listener at {address} speaks {spoken}{offered}, and security_protocol is {security.protocol!r}",
                hint=f"security_protocol={spoken!r}, or the port of another listener",
            )
        return


async def _mechanisms(address: str, context: ssl.SSLContext | None, deadline: Deadline) -> Sequence[str] | None:
    """Return the listener's login mechanisms, none where no login is needed; None if it does not speak this way. Raises
    AuthenticationFailed if it has TLS and does not accept this client."""
    host, _, port = address.rpartition(":")
    transport = Transport(address, "oncelog", deadline.remaining_s * 1000)
    try:
        async with asyncio.timeout_at(deadline.at_s):
            await asyncio.get_running_loop().create_connection(lambda: transport, host, int(port), ssl=context)
            await transport.wait_ready()
            request = SaslHandshakeRequest(mechanism=_NO_MECHANISM)
            response = await transport.request(SASL_HANDSHAKE, request, deadline.remaining_s)
            has_login = response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return sorted(response.mechanisms) if has_login else ()
    except ssl.SSLError as error:
        refusal = tls_error(address, error)
        if isinstance(refusal, AuthenticationFailed):
            raise refusal from error
        return None
    except AuthenticationFailed:
        raise
    except (KafkaError, OSError, TimeoutError):
        return None
    finally:
        transport.close()


def _unverified() -> ssl.SSLContext:
    """Return a context without verification: nothing secret is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
