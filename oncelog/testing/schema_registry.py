"""A schema registry for a broker of tests: the part of Confluent's REST that serializers and their tests use.

Owns: the HTTP server, in threads of this process; the topic `_schemas`, which it writes as Confluent's does and reads
again after each start of the broker. Does not own: what is registered and refused (`schema_subjects`).
Invariant: what it has answered is in the topic.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from oncelog.client import KafkaError
from oncelog.testing.schema_subjects import TOPIC, Refusal, StoredPair, Subjects

__tracebackhide__ = True
_CONTENT = "application/vnd.schemaregistry.v1+json"
_STORE_FAILED = 50001
"""Confluent's code for what could not be written to its topic."""
Answer = tuple[int, Any]


class Topics(Protocol):
    """The methods of the broker that the registry calls."""

    def topics(self) -> list[str]: ...

    def create_topic(
        self, name: str | None = None, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> str: ...

    def produce(self, topic: str, value: bytes | None, *, key: bytes | None = None) -> object: ...

    def records(self, topic: str) -> Sequence[Any]: ...


class SchemaRegistry:
    """A registry that listens from its making until `close`, while its broker may stop and start."""

    def __init__(self, broker: Topics) -> None:
        self._broker = broker
        self._subjects = Subjects()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def load(self) -> None:
        """Read the topic, after a start of the broker."""
        subjects = Subjects()
        if TOPIC in self._broker.topics():
            for record in self._broker.records(TOPIC):
                subjects.replay(record.key, record.value)
        with self._lock:
            self._subjects = subjects

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, target: str, body: Mapping[str, Any]) -> Answer:
        """Return the status and the JSON for one request."""
        parts = urlsplit(target)
        path = [unquote(each) for each in parts.path.split("/") if each]
        try:
            with self._lock:
                return 200, self._answered(method, path, body, parse_qs(parts.query))
        except Refusal as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        except (KafkaError, RuntimeError) as error:  # the broker is away
            return 500, {"error_code": _STORE_FAILED, "message": f"Error in the backend data store: {error}"}

    def _answered(  # noqa: C901  # the table of what it answers
        self, method: str, path: Sequence[str], body: Mapping[str, Any], query: Mapping[str, list[str]]
    ) -> Any:
        """Raises Refusal, and what the broker raises."""
        subjects = self._subjects
        match method, *path:
            case ["GET"]:
                return {}
            case ["GET", "subjects"]:
                return subjects.subjects()
            case ["GET", "subjects", subject, "versions"]:
                return subjects.versions(subject)
            case ["POST", "subjects", subject, "versions"]:
                schema_id, records = subjects.prepare_version(subject, body)
                return self._logged({"id": schema_id}, records)
            case ["POST", "subjects", subject]:
                return subjects.look_up(subject, body).fields()
            case ["DELETE", "subjects", subject]:
                return self._logged(*subjects.prepare_deletion(subject))
            case ["GET", "subjects", subject, "versions", number]:
                return subjects.version(subject, number).fields()
            case ["GET", "schemas", "ids", number] if number.isdecimal():
                return subjects.schema(int(number)).fields()
            case ["GET", "schemas", "types"]:
                return ["JSON", "PROTOBUF", "AVRO"]
            case ["POST", "compatibility", "subjects", subject, "versions", *number]:
                against = subjects.versions_to_check(subject, number[0]) if number else None
                conflicts = subjects.conflicts(subject, body, against)
                return {"is_compatible": not conflicts, "messages": conflicts}
            case ["GET", "config"]:
                return {"compatibilityLevel": subjects.level(None, or_default=True)}
            case ["GET", "config", subject]:
                or_default = query.get("defaultToGlobal") == ["true"]
                return {"compatibilityLevel": subjects.level(subject, or_default=or_default)}
            case ["PUT", "config", *of]:
                level, records = subjects.prepare_level(of[0] if of else None, body)
                return self._logged({"compatibility": level}, records)
            case ["GET", "mode"]:
                return {"mode": "READWRITE"}
        raise Refusal(404, f"HTTP 404 Not Found: the registry of a test has no {method} /{'/'.join(path)}")

    def _logged(self, answer: Any, records: Sequence[StoredPair]) -> Any:
        """Write the records, apply them, and return the answer."""
        if records and TOPIC not in self._broker.topics():
            self._broker.create_topic(TOPIC, partitions=1, config={"cleanup.policy": "compact"})
        for key, value in records:
            self._broker.produce(TOPIC, value, key=key)
            self._subjects.replay(key, value)
        return answer


def _handler(answer: Callable[[str, str, Mapping[str, Any]], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def _respond(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(data) if data else {}
            except ValueError:
                body = None
            if isinstance(body, dict):
                status, found = answer(self.command, self.path, body)
            else:
                status, found = 400, {"error_code": 400, "message": "the body is no JSON object"}
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", _CONTENT)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815  # the names that http.server calls

    return Handler
