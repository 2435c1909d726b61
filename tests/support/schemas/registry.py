"""A small schema registry in this process, which speaks the part of Confluent's REST that clients need.

It keeps schemas in memory, finds versions compatible unless a test sets `refuses`, and keeps a list of the requests.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, dict[str, Any]]


class SmallRegistry:
    """The schemas of the registry, and how it is to fail."""

    def __init__(self) -> None:
        self.url = ""
        self.login = ""
        """`user:password` that it asks for, if any."""
        self.failures = 0
        """How many requests it answers with status 503 from now on."""
        self.refuses = False
        """Whether it finds new versions incompatible."""
        self.requests: list[str] = []
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}

    def answer(self, method: str, path: str, login: str | None, body: dict[str, Any] | None) -> Answer:
        self.requests.append(f"{method} {path}")
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        if self.login and login != "Basic " + base64.b64encode(self.login.encode()).decode():
            return 401, {"error_code": 401, "message": "who are you?"}
        match [unquote(each) for each in path.partition("?")[0].split("/")[1:]], method:
            case ["schemas", "ids", number], "GET":
                found = self._schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions"], "POST":
                return self._register(subject, _schema(body or {}))
            case ["subjects", subject], "POST":
                return self._look_up(subject, _schema(body or {}))
            case ["subjects", subject, "versions", version], "GET":
                return self._version(subject, version)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        versions = self._subjects.setdefault(subject, [])
        key = json.dumps(body, sort_keys=True)
        schema_id = self._ids.get(key)
        if schema_id not in versions and self.refuses:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        if schema_id is None:
            schema_id = self._ids[key] = len(self._ids) + 1
            self._schemas[schema_id] = body
        if schema_id not in versions:
            versions.append(schema_id)
        return 200, {"id": schema_id}

    def _look_up(self, subject: str, body: dict[str, Any]) -> Answer:
        if subject not in self._subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        schema_id = self._ids.get(json.dumps(body, sort_keys=True))
        if schema_id not in self._subjects[subject]:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"id": schema_id, "subject": subject, **body}

    def _version(self, subject: str, version: str) -> Answer:
        versions = self._subjects.get(subject)
        if not versions:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(versions) if version == "latest" else int(version)
        if not 0 < number <= len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        schema_id = versions[number - 1]
        return 200, {"subject": subject, "version": number, "id": schema_id, **self._schemas[schema_id]}


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request that are kept, without empty ones and the default type."""
    kept = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
    if kept.get("schemaType") == "AVRO":
        del kept["schemaType"]
    return kept


@contextmanager
def small_registry() -> Iterator[SmallRegistry]:
    """A registry that listens on a port of its own."""
    registry = SmallRegistry()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, found = registry.answer(self.command, self.path, self.headers.get("Authorization"), body)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
