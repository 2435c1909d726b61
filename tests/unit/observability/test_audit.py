"""The audit log names what was denied, on one line that no name can forge, and once a second if it is repeated."""

import io
import json

import pytest
import structlog

from oncelog.broker.observability.audit import AuditLog
from oncelog.broker.observability.logging import AUTHORIZER, level_of, start_logging
from oncelog.broker.security.authorizer import Asked, Decision
from oncelog.broker.security.principal import Principal
from oncelog.protocol.acls import AclOperation, ResourceType

DENIED, ALLOWED = Decision(False, "DefaultDeny"), Decision(True, "SuperUser")
HOSTILE = ("a\nauthorizer.allowed action=all", "\x1b[2J", "\u2028\u202e", "x" * 10_000)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def audit(stream: io.StringIO) -> AuditLog:
    structlog.reset_defaults()
    return AuditLog(start_logging("info", stream))


def _asked(topic: str, who: str = "alice") -> Asked:
    return Asked(Principal("User", who), "10.0.0.1", AclOperation.WRITE, ResourceType.TOPIC, topic)


def test_a_denial_names_the_principal_the_operation_and_the_reason(audit: AuditLog, stream: io.StringIO) -> None:
    audit.on_decision(_asked("orders"), DENIED, "PRODUCE")
    line = json.loads(stream.getvalue())
    del line["timestamp"]
    assert line == {
        "event": "authorizer.denied",
        "level": "info",
        "action": "User:alice WRITE TOPIC:orders",
        "host": "10.0.0.1",
        "request": "PRODUCE",
        "rule": "DefaultDeny",
    }


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
@pytest.mark.parametrize("place", ["name", "principal", "rule"])
def test_no_name_forges_a_line(audit: AuditLog, stream: io.StringIO, text: str, place: str) -> None:
    """Kafka's audit log has names as they come."""
    asked = _asked(text) if place == "name" else _asked("orders", text if place == "principal" else "alice")
    audit.on_decision(asked, Decision(False, text) if place == "rule" else DENIED, "PRODUCE")
    written = stream.getvalue()
    assert written.endswith("\n")
    assert written[:-1].isprintable()
    assert len(written) < 1_500


def test_a_repeated_denial_is_one_line_a_second(audit: AuditLog, stream: io.StringIO) -> None:
    for _ in range(1_000):
        audit.on_decision(_asked("orders"), DENIED, "PRODUCE")
    audit.on_decision(_asked("secrets"), DENIED, "PRODUCE")
    assert [json.loads(line)["action"].rpartition(":")[2] for line in stream.getvalue().splitlines()] == [
        "orders",
        "secrets",
    ]


def test_what_was_allowed_is_written_at_debug_only(stream: io.StringIO) -> None:
    structlog.reset_defaults()
    log = start_logging("info", stream)
    audit = AuditLog(log)
    audit.on_decision(_asked("orders"), ALLOWED, "PRODUCE")
    assert stream.getvalue() == ""
    level = level_of(log)
    assert level is not None
    level.child(AUTHORIZER).set("debug")
    audit.on_decision(_asked("orders"), ALLOWED, "PRODUCE")
    assert json.loads(stream.getvalue())["event"] == "authorizer.allowed"
