"""A schema registry that speaks Confluent's REST: Confluent's own, Apicurio's (ccompat), Karapace, Redpanda's.

Owns: the requests, what is kept of the answers, which errors are raised. Does not own: what a schema means (`avro`),
and the bytes in which a record names it (`framing`). A schema never changes under its id, so what was asked once is not
asked again in this process. Calls block: they are made once for each schema.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
_CONTENT = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = (40401, 40402, 40403)
"""Confluent's codes: no such subject, version, schema."""
_PAUSE_S = 0.2


class RegistryError(Exception):
    """Raised if the registry refuses, cannot be reached, or answers what no registry does; the message says which.
    `code` is its own error code, `status` that of HTTP; None without an answer."""

    def __init__(self, message: str, status: int | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SchemaNotFound(RegistryError):
    """Raised for a subject, a version or an id that the registry has not."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one names."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as the registry has it: its text, and which schemas it refers to."""

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()

    def request(self) -> dict[str, Any]:
        """Return it as a request has it: Avro is what is meant where no type is said."""
        found: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in self.references
            ]
        return found


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema


@dataclass
class SchemaRegistry:
    """A client of a registry at `url`. Raises ValueError for a URL that is none.

        registry = SchemaRegistry("http://localhost:8081")

    With `username` and `password` it logs in by Basic, with `token` by Bearer; `ca_file` has the authorities of an
    https registry as PEM. A request that cannot be sent, or is answered by an error of the server, is repeated for
    `timeout_s`. It can be pickled and sent to Spark's tasks; they ask for themselves.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"url={self.url!r} is no address of a registry: write http://localhost:8081")
        if parts.username or parts.password:
            raise ValueError("url has a login: pass it as username= and password=, so that no error shows it")
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema, bool], int] = {}
        self._versions: dict[tuple[str, int], Registered] = {}

    def __getstate__(self) -> dict[str, Any]:
        names = ("url", "username", "password", "token", "ca_file", "timeout_s")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with this id. Raises RegistryError."""
        with self._lock:
            if schema_id not in self._by_id:
                found = self._ask("GET", f"/schemas/ids/{schema_id}", f"schema {schema_id}")
                self._by_id[schema_id] = _schema(found)
            return self._by_id[schema_id]

    def register(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema in this subject, which gets it as a new version if it has it not. Raises
        RegistryError, with code 409 if the subject's compatibility forbids it."""
        return self._id(subject, schema, is_new=True)

    def lookup(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema that this subject has. Raises RegistryError."""
        return self._id(subject, schema, is_new=False)

    def version(self, subject: str, version: int | Literal["latest"] = "latest") -> Registered:
        """Return a version of a subject; the latest is asked for each time. Raises RegistryError."""
        with self._lock:
            if version != "latest" and (subject, version) in self._versions:
                return self._versions[subject, version]
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            found = self._ask("GET", path, f"version {version} of subject {subject!r}")
            registered = Registered(subject, _number(found, "version"), _number(found, "id"), _schema(found))
            self._by_id[registered.id] = registered.schema
            self._versions[subject, registered.version] = registered
            return registered

    def referenced(self, schema: Schema) -> list[tuple[str, Schema]]:
        """Return what a schema refers to, by the names that it gives them: first what others need. Raises
        RegistryError."""
        found: dict[str, Schema] = {}
        for each in schema.references:
            other = self.version(each.subject, each.version).schema
            found.update({name: inner for name, inner in self.referenced(other) if name not in found})
            found.setdefault(each.name, other)
        return [*found.items()]

    def _id(self, subject: str, schema: Schema, *, is_new: bool) -> int:
        with self._lock:
            key = (subject, schema, is_new)
            if key not in self._ids:
                path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if is_new else "")
                found = self._ask("POST", path, f"the schema in subject {subject!r}", schema.request())
                self._ids[key] = _number(found, "id")
            return self._ids[key]

    def _ask(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        give_up_s = time.monotonic() + self.timeout_s
        while True:
            try:
                return self._answer(method, path, what, body, max(0.001, give_up_s - time.monotonic()))
            except RegistryError as error:
                is_passing = error.status is None or error.status >= 500
                if not is_passing or time.monotonic() + _PAUSE_S > give_up_s:
                    raise
            time.sleep(_PAUSE_S)

    def _answer(
        self, method: str, path: str, what: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> Mapping[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": f"{_CONTENT}, application/json", **self._login()}
        if data is not None:
            headers["Content-Type"] = _CONTENT
        request = Request(self.url.rstrip("/") + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.ca_file) if self.url.startswith("https:") else None
        opener = build_opener(*([] if context is None else [HTTPSHandler(context=context)]))
        try:
            with opener.open(request, timeout=timeout_s) as response:
                answer = response.read()
        except HTTPError as error:
            raise _refusal(what, error.code, error.read()) from None
        except (OSError, HTTPException) as error:
            raise RegistryError(f"{self.url} does not answer for {what}: {error}") from error
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RegistryError(f"{self.url} answers {answer[:80]!r} for {what}: is it a registry?", 200)
        return found

    def _login(self) -> dict[str, str]:
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username is None:
            return {}
        pair = base64.b64encode(f"{self.username}:{self.password or ''}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


def _refusal(what: str, status: int, answer: bytes) -> RegistryError:
    try:
        found = json.loads(answer)
        code, message = int(found["error_code"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        code, message = status, answer[:200].decode(errors="replace")
    kind = SchemaNotFound if status == 404 or code in _NOT_FOUND else RegistryError
    return kind(f"{what}: {message} ({code})", status, code)


def _schema(found: Mapping[str, Any]) -> Schema:
    text, kind = found.get("schema"), found.get("schemaType", "AVRO")
    if not isinstance(text, str) or kind not in ("AVRO", "JSON", "PROTOBUF"):
        raise RegistryError(f"the registry's answer has no schema of a known type: {str(found)[:200]}", 200)
    references: Sequence[Mapping[str, Any]] = found.get("references") or ()
    return Schema(text, kind, tuple(Reference(each["name"], each["subject"], each["version"]) for each in references))


def _number(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int):
        raise RegistryError(f"the registry's answer has no number {name!r}: {str(found)[:200]}", 200)
    return value
