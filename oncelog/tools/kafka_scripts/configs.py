"""`kafka-configs`: describe and alter the settings of topics, brokers and groups.

Owns: Kafka's words. `--entity-type topics --entity-name a` and `--topic a` are the same.
"""

from typing import TYPE_CHECKING, Any, Literal

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, out
from oncelog.tools.kafka_scripts.asking import ask

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin

_TYPES = {"topics": "topic", "brokers": "broker", "groups": "group"}
_ALL: Literal["all"] = "all"


def configs(options: Options) -> int:
    action = options.only(("describe", "alter"))
    kind, name = _entity(options)

    async def work(admin: "Admin") -> int:
        if action == "alter":
            await _alter(admin, options, kind, name)
            return 0
        for each in [name] if name is not None else await _all_names(admin, kind):
            await _describe(admin, kind, each, "all" in options)
        return 0

    return ask(options, work)


def _entity(options: Options) -> tuple[str, str | None]:
    """Return kind and name; the name is empty for the default of all brokers, None for each that there is. Raises
    Wrong."""
    for kind in _TYPES.values():
        if kind in options:
            return kind, options.value(kind)
    if "broker-defaults" in options:
        return "broker", ""
    entity_type = options.value("entity-type")
    if entity_type not in _TYPES:
        raise Wrong(f"{options.script}: entities of type {entity_type} have no settings here: {', '.join(_TYPES)} have")
    return _TYPES[entity_type], "" if "entity-default" in options else options.get("entity-name")


def _resource(kind: str, name: str) -> dict[str, Any]:
    if kind != "broker":
        return {kind: name}
    try:
        return {"node_id": int(name) if name else _ALL}
    except ValueError:
        raise Wrong(f"The entity name for brokers must be a valid integer broker id, but it is: {name}") from None


async def _all_names(admin: "Admin", kind: str) -> list[str]:
    match kind:
        case "topic":
            return await admin.list_topics(include_internal=True)
        case "group":
            return [each.group_id for each in await admin.list_groups()]
    return [*map(str, sorted((await admin.describe_cluster()).nodes)), ""]


async def _alter(admin: "Admin", options: Options, kind: str, name: str | None) -> None:
    if name is None:
        raise Wrong("an entity name must be specified with --alter")
    added = options.pairs("add-config")
    removed = [each for text in options.all("delete-config") for each in text.split(",")]
    if not added and not removed:
        raise Wrong("At least one of --add-config or --delete-config must be specified with --alter")
    await admin.alter_configs(added, **_resource(kind, name), reset=removed)
    whose = f"{kind} {name}" if name else "brokers in the cluster"
    out(f"Completed updating {'' if name else 'default '}config for {whose}.")


async def _describe(admin: "Admin", kind: str, name: str, wants_all: bool) -> None:
    if kind == "topic" and name not in await admin.list_topics(include_internal=True):
        out(f"The topic '{name}' doesn't exist and doesn't have dynamic config.")
        return
    whose = f"{kind} {name} are" if name else "brokers in the cluster are"
    out(f"{'All' if wants_all else 'Dynamic' if name else 'Default'} configs for {whose}:")
    entries = await admin.describe_config_entries(**_resource(kind, name))
    dynamic = f"DYNAMIC_{kind.upper()}_CONFIG" if name else "DYNAMIC_DEFAULT_BROKER_CONFIG"
    for each in sorted(entries, key=lambda entry: entry.name):
        if wants_all or each.source == dynamic:
            synonyms = ", ".join(f"{place.source}:{place.name}={_text(place.value)}" for place in each.synonyms)
            out(f"  {each.name}={_text(each.value)} sensitive={str(each.is_sensitive).lower()} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else value
