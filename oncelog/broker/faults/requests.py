"""A handler that stops before and after each request.

Owns: what the actions do to a request and its response. Does not own: the frame, the order of responses on a
connection: a held request keeps its connection waiting, as it would while a handler worked, and is handled even if its
connection has closed, as a delayed packet would be.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oncelog.broker.faults.error_answers import error_answer, error_names, with_error
from oncelog.broker.faults.planted import Occurrence, PlantedRule
from oncelog.broker.faults.request_subjects import partitions_of, transactional_ids_of
from oncelog.broker.faults.rule import Action, Point
from oncelog.broker.requests.context import CloseConnection, Handler, Pipelined, RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults

_WAITING = (Action.HOLD, Action.DELAY)


class FaultHandler:
    """Wraps the handler of one API."""

    def __init__(self, faults: "Faults", handle: Handler) -> None:
        self._faults = faults
        self._handle = handle

    def handle(self, context: RequestContext, request: Any) -> Any:
        if not self._faults.watches_requests:
            return self._handle(context, request)
        occurrence = Occurrence(
            Point.REQUEST,
            api=ApiKey(context.api_key),
            api_version=context.api_version,
            client_id=context.client_id,
            transactional_ids=transactional_ids_of(request),
            partitions=partitions_of(context.broker.topics, request),
        )

        def handled() -> Any:
            return self._answered(replace(occurrence, point=Point.ANSWER), self._handle(context, request))

        planted = self._faults.fire(occurrence)
        if planted is None:
            return handled()
        action = planted.rule.action
        if action in _WAITING:
            return self._faults.wait(planted, occurrence).map(lambda _: handled())
        if action is Action.ERROR:
            return error_answer(context, request, planted.rule.error, self._handle)
        if action is Action.DROP:
            raise CloseConnection("a fault rule drops the request")
        self._repeat(planted, occurrence, context, request)
        return handled()

    def _answered(self, occurrence: Occurrence, outcome: Any) -> Any:
        if isinstance(outcome, Pipelined):
            return Pipelined(outcome.completion, lambda done: self._answered(occurrence, outcome.respond(done)))
        if isinstance(outcome, Completion):
            return outcome.map(lambda later: self._answered(occurrence, later))
        planted = self._faults.fire(occurrence)
        if planted is None:
            return outcome
        if planted.rule.action is Action.ERROR:
            return with_error(outcome, planted.rule.error)
        if planted.rule.action is Action.DROP:
            raise CloseConnection("a fault rule drops the response")
        return self._faults.wait(planted, occurrence).map(lambda _: outcome)

    def _repeat(self, planted: PlantedRule, occurrence: Occurrence, context: RequestContext, request: Any) -> None:
        """Handle the request a second time, later; its response is discarded."""

        def on_outcome(outcome: Any) -> None:
            if isinstance(outcome, Pipelined):
                pipelined = outcome
                outcome = pipelined.completion.map(
                    lambda _: pipelined.respond(pipelined.completion),
                    lambda _: pipelined.respond(pipelined.completion),
                )
            if isinstance(outcome, Completion):
                outcome.then(lambda done: on_outcome(done.error if done.error is not None else done.result()))
                return
            names = str(outcome) if isinstance(outcome, Exception) else " ".join(error_names(outcome)) or "NONE"
            planted.answers_of_copies.append(names)
            self._faults.events.append("copy answered", rule_number=planted.number, error=names)

        waited = self._faults.wait(planted, occurrence)
        waited.map(lambda _: self._handle(context, request)).then(on_outcome)
