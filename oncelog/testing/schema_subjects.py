"""What a schema registry knows: subjects, their versions, ids, and which versions are compatible.

Owns: the state, which changes by replaying records of Confluent's `_schemas` topic alone; what is registered, looked up
and refused. Does not own: HTTP and the topic (`schema_registry`), how two Avro schemas compare (`avro_compatibility`).
A schema has one id in all subjects. Avro is compared; JSON Schema and Protobuf are kept as they are.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.testing.avro_compatibility import NotAvro, can_read, parse

TOPIC = "_schemas"
_DEFAULT_LEVEL = "BACKWARD"
_LATEST = ("latest", "-1")
_NO_SUBJECT = 40401
_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")
_TYPES = ("AVRO", "JSON", "PROTOBUF")
StoredPair = tuple[bytes, bytes]
"""The key and the value of a record in the topic."""


class Refusal(Exception):
    """Raised for a request that the registry refuses; `code` is Confluent's, whose first digits are those of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


@dataclass(frozen=True, slots=True)
class Schema:
    text: str
    type: str = "AVRO"
    references: tuple[tuple[str, str, int], ...] = ()
    """Name, subject and version of each."""

    def fields(self) -> dict[str, Any]:
        """Return what answers and records have of it: Avro is what is meant where no type is said."""
        found: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            found["schemaType"] = self.type
        if self.references:
            names = ("name", "subject", "version")
            found["references"] = [dict(zip(names, each, strict=True)) for each in self.references]
        return found


@dataclass(frozen=True, slots=True)
class Version:
    subject: str
    number: int
    id: int
    schema: Schema
    is_deleted: bool = False

    def fields(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.number, "id": self.id, **self.schema.fields()}


class Subjects:
    def __init__(self) -> None:
        self._versions: dict[str, dict[int, Version]] = {}
        self._levels: dict[str | None, str] = {}

    # --- replaying

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the topic; kinds of keys that are not known here are passed over, as NOOP is."""
        names, fields = json.loads(key or b"{}"), json.loads(value or b"null")
        subject, kind = names.get("subject"), names.get("keytype")
        if kind == "SCHEMA":
            numbers = self._versions.setdefault(subject, {})
            if fields is None:
                numbers.pop(names["version"], None)
            else:
                is_deleted = bool(fields.get("deleted"))
                numbers[fields["version"]] = Version(
                    subject, fields["version"], fields["id"], _schema_of(fields), is_deleted
                )
        elif kind == "CONFIG":
            self._levels.pop(subject, None)
            if fields is not None:
                self._levels[subject] = fields["compatibilityLevel"]

    # --- asking

    def subjects(self) -> list[str]:
        return sorted(subject for subject in self._versions if self._live(subject))

    def versions(self, subject: str) -> list[int]:
        """Raises Refusal."""
        return [each.number for each in self._known(subject)]

    def version(self, subject: str, number: str) -> Version:
        """Return a version by its number or as "latest". Raises Refusal."""
        if number not in _LATEST and (not number.isdecimal() or int(number) == 0):
            raise Refusal(42202, f"The specified version '{number}' is not a valid version id.")
        live = self._known(subject)
        if number in _LATEST:
            return live[-1]
        for each in live:
            if each.number == int(number):
                return each
        raise Refusal(40402, f"Version {number} not found.")

    def versions_to_check(self, subject: str, number: str) -> list[Version]:
        """Return the version with which a schema is compared: none for "latest" of a subject that has none yet, with
        which any schema is compatible, as in Confluent's since 7.2. Raises Refusal."""
        try:
            return [self.version(subject, number)]
        except Refusal as error:
            if error.code != _NO_SUBJECT:
                raise
        if number in _LATEST:
            return []
        raise Refusal(40402, f"Version {number} not found.")

    def schema(self, schema_id: int) -> Schema:
        """Return it also if its subject was deleted: records still name it. Raises Refusal."""
        for each in self._all():
            if each.id == schema_id:
                return each.schema
        raise Refusal(40403, f"Schema {schema_id} not found")

    def look_up(self, subject: str, body: Mapping[str, Any]) -> Version:
        """Return the version of a subject that has this schema. Raises Refusal."""
        wanted = _checked(body)
        for each in self._known(subject):
            if each.schema == wanted:
                return each
        raise Refusal(40403, "Schema not found")

    def level(self, subject: str | None, *, or_default: bool) -> str:
        """Return the compatibility of a subject, or of all. Raises Refusal if it has none of its own."""
        default = self._levels.get(None, _DEFAULT_LEVEL)
        if subject is None:
            return default
        if subject not in self._levels and not or_default:
            text = f"Subject '{subject}' does not have subject-level compatibility configured"
            raise Refusal(40408, text)
        return self._levels.get(subject, default)

    def conflicts(self, subject: str, body: Mapping[str, Any], against: Sequence[Version] | None = None) -> list[str]:
        """Return why this schema is not compatible with those versions, by default with those that the subject's level
        asks for. Raises Refusal."""
        schema, level = _checked(body), self.level(subject, or_default=True)
        if schema.type == "AVRO":
            self._parsed(schema)
        if against is None:
            live = self._live(subject)
            against = live if level.endswith("_TRANSITIVE") else live[-1:]
        return [
            f"{reason} (version {each.number})" for each in against for reason in self._between(schema, each, level)
        ]

    # --- deciding

    def prepare_version(self, subject: str, body: Mapping[str, Any]) -> tuple[int, list[StoredPair]]:
        """Return the id of a schema in this subject, and the record that makes it a version of it if it is not. Raises
        Refusal."""
        schema = _checked(body)
        for each in self._live(subject):
            if each.schema == schema:
                return each.id, []
        if conflicts := self.conflicts(subject, body):
            text = "Schema being registered is incompatible with an earlier schema for subject"
            raise Refusal(409, f'{text} "{subject}": {"; ".join(conflicts)}')
        schema_id = next((each.id for each in self._all() if each.schema == schema), 0)
        schema_id = schema_id or max((each.id for each in self._all()), default=0) + 1
        number = max(self._versions.get(subject, {}), default=0) + 1
        return schema_id, [_record(Version(subject, number, schema_id, schema))]

    def prepare_level(self, subject: str | None, body: Mapping[str, Any]) -> tuple[str, list[StoredPair]]:
        """Return the level, and its record. Raises Refusal."""
        level = str(body.get("compatibility")).upper()
        if level not in _LEVELS:
            raise Refusal(42203, f"Invalid compatibility level. Valid values are {', '.join(_LEVELS)}")
        key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
        return level, [(_packed(key), _packed({"subject": subject, "compatibilityLevel": level}))]

    def prepare_deletion(self, subject: str) -> tuple[list[int], list[StoredPair]]:
        """Return the versions of a subject, and the records that mark them deleted. Raises Refusal."""
        live = self._known(subject)
        records = [_record(Version(each.subject, each.number, each.id, each.schema, True)) for each in live]
        return [each.number for each in live], records

    # --- inside

    def _all(self) -> list[Version]:
        return [each for numbers in self._versions.values() for each in numbers.values()]

    def _live(self, subject: str) -> list[Version]:
        numbers = self._versions.get(subject, {})
        return [numbers[number] for number in sorted(numbers) if not numbers[number].is_deleted]

    def _known(self, subject: str) -> list[Version]:
        live = self._live(subject)
        if not live:
            raise Refusal(_NO_SUBJECT, f"Subject '{subject}' not found.")
        return live

    def _between(self, schema: Schema, other: Version, level: str) -> list[str]:
        if level == "NONE":
            return []
        if schema.type != other.schema.type:
            return [f"it is {schema.type}, and the earlier one {other.schema.type}"]
        if schema.type != "AVRO":
            return []
        new, old = self._parsed(schema), self._parsed(other.schema)
        found = []
        if not level.startswith("FORWARD"):
            found += can_read(new, old)
        if not level.startswith("BACKWARD"):
            found += can_read(old, new)
        return found

    def _parsed(self, schema: Schema) -> Any:
        """Return a schema with those that it refers to. Raises Refusal."""
        try:
            return parse(schema.text, self._referenced(schema))
        except NotAvro as error:
            raise Refusal(42201, f"Invalid schema: {error}") from None

    def _referenced(self, schema: Schema) -> list[str]:
        found: list[str] = []
        for _, subject, number in schema.references:
            try:
                other = self.version(subject, str(number)).schema
            except Refusal as error:
                raise Refusal(42201, f"Invalid schema: it refers to {subject!r}, version {number}: {error}") from None
            found += [*self._referenced(other), other.text]
        return found


def _record(version: Version) -> StoredPair:
    key = {"keytype": "SCHEMA", "subject": version.subject, "version": version.number, "magic": 1}
    digest = hashlib.md5(version.schema.text.encode(), usedforsecurity=False).hexdigest()
    return _packed(key), _packed({**version.fields(), "md5": digest, "deleted": version.is_deleted})


def _packed(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _schema_of(fields: Mapping[str, Any]) -> Schema:
    references = fields.get("references") or ()
    found = tuple((each["name"], each["subject"], each["version"]) for each in references)
    return Schema(fields["schema"], fields.get("schemaType") or "AVRO", found)


def _checked(body: Mapping[str, Any]) -> Schema:
    """Return the schema of a request, without the white space that says nothing. Raises Refusal."""
    try:
        schema = _schema_of(body)
    except (KeyError, TypeError):
        raise Refusal(42201, "Empty schema") from None
    if schema.type not in _TYPES:
        raise Refusal(422, f"Invalid schema type {schema.type}")
    if schema.type == "PROTOBUF":
        return schema
    try:
        text = json.dumps(json.loads(schema.text), separators=(",", ":"), ensure_ascii=False)
    except ValueError as error:
        raise Refusal(42201, f"Invalid schema: {error}") from None
    return Schema(text, schema.type, schema.references)
