"""The audit log of the authorizer: denials at info, what is allowed at debug.

Owns: what a line says. Does not own: decisions (`broker.security.authorizer`), how often a repeated line is written
(`broker.observability.repeats`), how values are escaped so that none can forge a line (`broker.observability.logging`).
"""

from typing import Any

from oncelog.broker.observability.logging import AUTHORIZER, DEBUG, logger_of
from oncelog.broker.security.authorizer import Asked, Decision

_MOST_CHARACTERS = 300
"""How much is logged of what a client named: a name of a topic has at most 249, and a line stays readable."""


class AuditLog:
    def __init__(self, log: Any) -> None:
        self._log = logger_of(log, AUTHORIZER)

    def on_decision(self, asked: Asked, decision: Decision, request: str) -> None:
        if not decision.is_allowed:
            self._log.info("authorizer.denied", **_facts(asked, decision, request))
        elif self._log.is_enabled_for(DEBUG):
            self._log.debug("authorizer.allowed", **_facts(asked, decision, request))


def _facts(asked: Asked, decision: Decision, request: str) -> dict[str, Any]:
    name = "any" if asked.name is None else _shortened(asked.name)
    return {
        "action": f"{_shortened(str(asked.principal))} {asked.operation.name} {asked.resource_type.name}:{name}",
        "host": asked.host,
        "request": request,
        "rule": _shortened(decision.rule),
    }


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
