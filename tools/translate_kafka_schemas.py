"""One-off: translate Apache Kafka's JSON message schemas into the declarations of `protocol/`.

    python tools/translate_kafka_schemas.py DIRECTORY_WITH_KAFKA_JARS

Reads `common/message/*.json` and `common/metadata/*.json` out of the jars (Apache License 2.0, see NOTICE) and writes
`oncelog/protocol/messages/` and `oncelog/protocol/state_records/`. The declarations are kept and read; this ran once
per Kafka release.
"""

import json
import re
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TYPES = {
    "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint16": "UInt16", "uint32": "UInt32",
    "float64": "Float64", "bool": "Boolean", "uuid": "Uuid", "string": "String", "bytes": "Bytes", "records": "Records",
}  # fmt: skip
STATE_RECORDS = {
    "kafka-transaction-coordinator": ("TransactionLogKey", "TransactionLogValue"),
    "kafka-group-coordinator": (
        "LegacyOffsetCommitKey", "OffsetCommitKey", "OffsetCommitValue", "GroupMetadataKey", "GroupMetadataValue",
        "ConsumerGroupMetadataKey", "ConsumerGroupMetadataValue", "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue", "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue", "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue", "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue", "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue", "StreamsGroupMetadataKey", "StreamsGroupMetadataValue",
        "StreamsGroupMemberMetadataKey", "StreamsGroupMemberMetadataValue", "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue", "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue", "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue", "StreamsGroupTopologyKey", "StreamsGroupTopologyValue",
        "ShareGroupMemberMetadataKey", "ShareGroupMemberMetadataValue",
        "ShareGroupMetadataKey", "ShareGroupMetadataValue", "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue", "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue", "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue", "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
    ),
    "kafka-share-coordinator": ("ShareSnapshotKey", "ShareSnapshotValue", "ShareUpdateKey", "ShareUpdateValue"),
    "kafka-metadata": (
        "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RemoveTopicRecord", "ConfigRecord",
        "FeatureLevelRecord", "ProducerIdsRecord", "UserScramCredentialRecord", "RemoveUserScramCredentialRecord",
        "AccessControlEntryRecord", "RemoveAccessControlEntryRecord", "ClientQuotaRecord", "DelegationTokenRecord",
        "RemoveDelegationTokenRecord",
    ),
}  # fmt: skip
HEADERS = ("RequestHeader", "ResponseHeader", "ConsumerProtocolSubscription", "ConsumerProtocolAssignment")


def snake_case(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def load(text: str) -> tuple[dict[str, Any], str]:
    """The schema, and the version notes that stand in its comments."""
    _, _, rest = text.partition("{")
    notes = []
    for line in rest.splitlines():
        stripped = line.strip()
        if stripped.startswith("//"):
            notes.append(stripped[2:].strip())
        elif stripped.startswith('"fields"'):
            break
    schema = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return schema, "\n".join(notes).strip()


def ranges(versions: str | None) -> str:
    return "" if not versions or versions == "none" else versions


class Writer:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
        self.types: set[str] = set()

    def field(self, field: dict[str, Any], indent: int) -> str:
        pad = " " * indent
        default = field.get("default")
        arguments = [repr(snake_case(field["name"])).replace("'", '"'), self.type(field, indent)]
        # As in Kafka's FieldSpec: a field that names its tagged versions only exists in those only.
        versions = field.get("versions") or field.get("taggedVersions") or "0+"
        if versions != "0+":
            arguments.append(f'"{versions}"')
        if field.get("nullableVersions"):
            arguments.append(f'nullable="{field["nullableVersions"]}"')
        if default is not None and default != "":
            arguments.append(f"default={self.default(field['type'], str(default))}")
        if "tag" in field:
            arguments.append(f"tag={field['tag']}")
            arguments.append(f'tagged="{field["taggedVersions"]}"')
        if field.get("flexibleVersions") == "none":
            arguments.append("plain=True")
        return f"{pad}Field({', '.join(arguments)}),"

    def default(self, kind: str, text: str) -> str:
        if text == "null":
            return "None"
        if kind == "bool":
            return str(text.lower() == "true")
        if kind == "string":
            return json.dumps(text)
        return text if kind == "float64" else str(int(text, 0))

    def type(self, field: dict[str, Any], indent: int) -> str:
        kind: str = field["type"]
        if kind.startswith("[]"):
            self.types.add("ArrayOf")
            return f"ArrayOf({self.type({**field, 'type': kind[2:]}, indent)})"
        if kind in TYPES:
            self.types.add(TYPES[kind])
            return TYPES[kind]
        self.types.add("Structure")
        fields = field.get("fields") or self.common[kind]
        inner = "\n".join(self.field(inner, indent + 4) for inner in fields)
        return f'Structure(\n{" " * (indent + 4)}"{kind}",\n{inner}\n{" " * indent})'


def declaration(schema: dict[str, Any], notes: str) -> tuple[str, set[str]]:
    writer = Writer(schema)
    fields = "\n".join(writer.field(field, 8) for field in schema["fields"])
    constant = snake_case(schema["name"]).upper()
    flexible = ranges(schema.get("flexibleVersions"))
    lines = [line for note in notes.splitlines() for line in textwrap.wrap(note, 116) or [""]]
    comment = "\n".join(f"# {line}".rstrip() for line in lines)
    text = f"""{comment}
{constant} = Schema(
    "{schema["name"]}",
    api_key={schema.get("apiKey")},
    versions="{schema["validVersions"]}",
    flexible="{flexible}",
    fields=(
{fields}
    ),
)""".replace("fields=(\n\n    )", "fields=()")
    return text.strip(), writer.types


def module(doc: str, schemas: list[tuple[dict[str, Any], str]]) -> str:
    texts, types = [], set()
    for schema, notes in schemas:
        text, used = declaration(schema, notes)
        texts.append(text)
        types |= used
    from_schema = sorted({"Field", "Schema"} & {"Field", "Schema"} | types & {"ArrayOf", "Structure"})
    if not any("Field(" in text for text in texts):
        from_schema.remove("Field")
    lines = [f'"""{doc}"""', "", f"from oncelog.protocol.schema import {', '.join(from_schema)}"]
    if from_types := sorted(types - {"ArrayOf", "Structure"}):
        lines.append(f"from oncelog.protocol.types import {', '.join(from_types)}")
    return "\n".join(lines) + "\n\n" + "\n\n".join(texts) + "\n"


def read(jar: Path) -> dict[str, tuple[dict[str, Any], str]]:
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.match(r"common/(message|metadata)/\w+\.json$", name):
                schema, notes = load(archive.read(name).decode())
                found[schema["name"]] = (schema, notes)
    return found


def main(jars: Path) -> None:
    messages, records = ROOT / "oncelog/protocol/messages", ROOT / "oncelog/protocol/state_records"
    for folder in (messages, records):
        folder.mkdir(parents=True, exist_ok=True)
    clients = read(next(jars.glob("kafka-clients-*.jar")))
    for name, (schema, _) in clients.items():
        if not name.endswith("Request") or "broker" not in schema.get("listeners", []):
            continue
        api = name.removesuffix("Request")
        pair = [clients[name], clients[f"{api}Response"]]
        doc = f"{api} ({schema['apiKey']}): request and response."
        (messages / f"{snake_case(api)}.py").write_text(module(doc, pair))
    for name in HEADERS:
        (messages / f"{snake_case(name)}.py").write_text(module(f"{name}.", [clients[name]]))
    for prefix, names in STATE_RECORDS.items():
        found = read(next(path for path in jars.glob(f"{prefix}-[0-9]*.jar")))
        for name in names:
            doc = f"{name}: a record of {prefix.removeprefix('kafka-')}."
            (records / f"{snake_case(name)}.py").write_text(module(doc, [found[name]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
