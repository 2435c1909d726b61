"""The login of one connection on a listener with SASL: its requests pass here until it is over, and while its session
may end.

Owns: frames before the login, the delay of a failure, the end of a session. Does not own: states and principals
(`broker.security.authentication`), the requests SaslHandshake and SaslAuthenticate (their handlers ask this object, as
`Peer.login`).
Invariants
- A request that the state does not answer ends the connection before anything but its key and version is read.
- A failure is answered, and the connection closed, after `connection.failed.authentication.delay.ms`; meanwhile
  nothing is read.
- A connection without a session's end has no trace of its login in the path of its requests.
"""

from typing import Any, TypeVar

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.net.connection import Connection
from oncelog.broker.requests.context import CloseConnection, LoginStep, Peer
from oncelog.broker.requests.dispatch import Dispatcher, Exchange
from oncelog.broker.security.authentication import Authentication, IllegalSaslState
from oncelog.broker.security.mechanisms import AuthenticationFailed, Outcome
from oncelog.broker.security.sasl_states import SaslState
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ProtocolError

T = TypeVar("T")


class SaslLogin:
    """The login of one connection by SASL, a `Login`."""

    def __init__(self, dispatcher: Dispatcher, connection: Connection, authentication: Authentication) -> None:
        self._dispatcher = dispatcher
        self._connection = connection
        self._authentication = authentication
        self._metrics = connection.broker.metrics

    def dispatch(self, frame: memoryview, peer: Peer) -> Exchange:
        """Start a request before the login is done, like `Dispatcher.dispatch`."""
        authentication = self._authentication
        if authentication.state is SaslState.RAW_TOKENS:
            return self._take_raw_token(bytes(frame))
        if len(frame) < 8:
            raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
        api_key, version = frame[0] << 8 | frame[1], frame[2] << 8 | frame[3]
        if authentication.state is SaslState.COMPLETE:
            if api_key != ApiKey.SASL_HANDSHAKE and authentication.has_ended(
                self._connection.broker.clock.monotonic_ms()
            ):
                self._metrics.connections_closed_expired += 1
                raise CloseConnection("its session has ended, and it has not logged in again (KIP-368)")
            return self._dispatcher.dispatch(frame, peer)
        try:
            authentication.check(api_key)
        except IllegalSaslState as error:
            self._count_failure()
            return self._close_later(str(error))
        if api_key == ApiKey.API_VERSIONS:
            api = API_TABLE[api_key]
            if not api.minimum <= version <= api.maximum:
                return self._dispatcher.dispatch(
                    frame, peer
                )  # the response lists the versions, and the client asks again
            authentication.on_api_versions()
        return self._dispatcher.dispatch(frame, peer)

    # --- for the handlers ---------------------------------------------------------------------------------------------

    @property
    def mechanisms(self) -> list[str]:
        return list(self._authentication.mechanisms)

    @property
    def takes_handshake(self) -> bool:
        authentication = self._authentication
        if authentication.state is SaslState.COMPLETE:
            return authentication.may_begin_again(self._connection.broker.clock.monotonic_ms())
        return authentication.state in (SaslState.INITIAL, SaslState.HANDSHAKE)

    @property
    def takes_token(self) -> bool:
        return self._authentication.state is SaslState.TOKENS

    @property
    def is_by_token(self) -> bool:
        return self._authentication.is_by_token

    def on_handshake(self, mechanism: str, version: int) -> bool:
        """Whether the mechanism is enabled; if not, the login has failed."""
        if self._authentication.on_handshake(mechanism, version, self._connection.broker.clock.monotonic_ms()):
            return True
        self._refuse(
            f"the client asked for a SASL mechanism that is not in sasl.enabled.mechanisms: {mechanism[:100]!r}"
        )
        return False

    def evaluate(self, token: bytes) -> LoginStep | Completion[LoginStep]:
        """Raises, or completes with, AuthenticationFailed: the login has failed."""
        try:
            outcome = self._authentication.evaluate(token)
            if not isinstance(outcome, Completion):
                return self._taken(outcome)
        except AuthenticationFailed as failure:
            self._on_failure(failure)
            raise
        return self._when_known(outcome)

    def delayed(self, response: T) -> Completion[T]:
        """Return the response to a login that has failed, after a delay."""
        completion: Completion[T] = Completion()
        self._later(lambda: completion.complete(response))
        return completion

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def _when_known(self, outcome: Completion[Outcome]) -> Completion[LoginStep]:
        step: Completion[LoginStep] = Completion()

        def on_outcome(known: Completion[Outcome]) -> None:
            failure = known.error
            if failure is None:
                try:
                    step.complete(self._taken(known.result()))
                    return
                except AuthenticationFailed as refusal:
                    failure = refusal
            if isinstance(failure, AuthenticationFailed):
                self._on_failure(failure)
            step.fail(failure)

        outcome.then(on_outcome)
        return step

    def _taken(self, outcome: Outcome) -> LoginStep:
        authentication = self._authentication
        is_renewal = authentication.principal is not None
        session_ms = authentication.complete(outcome, self._connection.broker.clock.monotonic_ms())
        if authentication.state is SaslState.COMPLETE and authentication.principal is not None:
            if is_renewal:
                self._metrics.logins_renewed += 1
            else:
                self._metrics.logins += 1
            has_no_end = authentication.session_ends_ms is None
            dispatch = self._dispatcher.dispatch if has_no_end else self.dispatch
            self._connection.admit(authentication.principal, dispatch)
        return LoginStep(outcome.token, session_ms)

    def _on_failure(self, failure: AuthenticationFailed) -> None:
        mechanism = self._authentication.mechanism
        self._authentication.fail()
        self._refuse(f"the login by {mechanism} failed: {failure}")

    def _take_raw_token(self, token: bytes) -> Exchange:
        """Take a frame as a token, after SaslHandshake v0; so is the response."""
        exchange = Exchange()
        try:
            step = self.evaluate(token)
        except AuthenticationFailed as failure:
            return self._close_later(str(failure))
        if isinstance(step, Completion):
            exchange.holds = True
            step.then(lambda known: self._answer_raw(exchange, known))
        else:
            exchange.reject([step.token])
        return exchange

    def _answer_raw(self, exchange: Exchange, step: Completion[LoginStep]) -> None:
        if step.error is None:
            exchange.reject([step.result().token])
            _done(exchange)
        else:
            self._later(lambda: _close(exchange, str(step.error)))

    def _close_later(self, reason: str) -> Exchange:
        self._authentication.fail()
        exchange = Exchange()
        exchange.holds = True
        self._later(lambda: _close(exchange, reason))
        return exchange

    def _refuse(self, reason: str) -> None:
        self._count_failure()
        self._connection.end(reason)

    def _count_failure(self) -> None:
        if self._authentication.principal is None:
            self._metrics.logins_failed += 1
        else:
            self._metrics.renewals_failed += 1

    def _later(self, function: Any) -> None:
        delay_ms = self._connection.broker.config.get_int("connection.failed.authentication.delay.ms")
        self._connection.broker.scheduler.call_later(delay_ms, function)


def _close(exchange: Exchange, reason: str) -> None:
    exchange.close(reason)
    _done(exchange)


def _done(exchange: Exchange) -> None:
    if exchange.on_done is not None:
        exchange.on_done(exchange)
