"""The descriptor of an API is complete, and everything that it names exists."""

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import pytest

from oncelog.broker.apis import administration, clients
from oncelog.broker.apis.descriptor import READS, Api, Errors, Owner, Place, Rights
from oncelog.broker.apis.table import API_TABLE, TRANSACTION_V2_SINCE
from oncelog.broker.handlers.rights.guard import refusal_of, run_of
from oncelog.broker.witness import facts
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from tests.support.tables import rows

EVERY_API = rows("api", API_TABLE.values(), lambda api: api.name)


def message(api: Api, kind: str) -> Schema:
    schema: Schema = getattr(import_module(f"oncelog.protocol.messages.{api.name}"), f"{api.name}_{kind}".upper())
    return schema


def fields(structure: Structure, version: int) -> dict[str, Field]:
    return {field.name: field for field in (*structure.fields_in(version), *structure.tagged_in(version))}


def element(structure: Structure, array: str, version: int) -> Any:
    """The element type of the array; KeyError if the structure has none of this name in this version."""
    kind = fields(structure, version)[array].type
    assert isinstance(kind, ArrayOf), array
    return kind.element


def innermost(api: Api, version: int, place: Place) -> Structure:
    """The rows with the error; each has its element in the request, and copies what it says it does."""
    asked, answered = message(api, "request").structure, message(api, "response").structure
    for level in place:
        asked, answered = element(asked, level.asked, version), element(answered, level.answered, version)
        assert answered.name == level.kind
        if isinstance(asked, Structure):
            copied = [fields(asked, version), fields(answered, version)]
            assert all((name in copied[0]) == (name in copied[1]) for name in level.repeats)
            assert any(name in copied[0] for name in level.repeats) or not level.repeats
        else:
            assert len(level.repeats) == 1
    return answered


def every_place() -> Iterator[tuple[Api, int, Errors]]:
    for api in API_TABLE.values():
        for version in range(api.minimum, api.highest(True) + 1):
            yield api, version, api.errors_in(version)


@rows("api, version, errors", every_place(), lambda row: f"{row[0].name}-{row[1]}")
def test_errors_are_where_the_declarations_have_them(api: Api, version: int, errors: Errors) -> None:
    assert errors.is_whole == ("error_code" in fields(message(api, "response").structure, version))
    if errors.rows:
        assert errors.field in fields(innermost(api, version, errors.rows), version)


def test_an_api_is_described_once() -> None:
    groups = [value for module in (clients, administration) for value in vars(module).values()]
    described = [api for group in groups if isinstance(group, tuple) for api in group if isinstance(api, Api)]
    assert [key for key, count in Counter(api.key for api in described).items() if count > 1] == []
    assert {api.key for api in described} == set(API_TABLE)
    assert list(API_TABLE) == sorted(API_TABLE), "ApiVersions lists them in order"


REQUIRED = {"owner": Owner.ANY, "rights": Rights(), "read_only": READS}


@pytest.mark.parametrize("name", REQUIRED)
def test_no_descriptor_leaves_out_its_owner_its_rights_or_what_a_read_only_broker_answers(name: str) -> None:
    given: dict[str, Any] = {each: value for each, value in REQUIRED.items() if each != name}
    with pytest.raises(TypeError, match=f"required keyword-only argument: '{name}'"):
        Api(ApiKey.PRODUCE, 0, 0, **given)


@EVERY_API
def test_only_what_the_controller_owns_is_sent_to_any_node_instead(api: Api) -> None:
    assert api.owner is Owner.CONTROLLER or not api.from_any_node


@EVERY_API
def test_any_node_answers_what_names_the_leader(api: Api) -> None:
    assert api.owner is Owner.ANY or not api.names_leader


@EVERY_API
def test_what_a_descriptor_names_exists(api: Api) -> None:
    assert all(find_spec(need.value) for need in api.needs)
    assert find_spec(api.handler)
    assert all(callable(run_of(step)) for step in api.rights.steps)
    assert all(callable(refusal_of(needed)) for needed in api.rights.needs if needed.refusal)


def test_every_function_of_the_witness_is_named_by_a_descriptor_and_the_other_way_round() -> None:
    functions = {
        name for name, value in vars(facts).items() if isinstance(value, FunctionType) and not name.startswith("_")
    }
    own = {name for name in functions if vars(facts)[name].__module__ == facts.__name__}
    assert own == {api.name for api in API_TABLE.values() if api.witnessed}


@EVERY_API
def test_what_a_fault_rule_does_fits_the_api(api: Api) -> None:
    versions = range(api.minimum, api.highest(True) + 1)
    assert api.on_fault != "handled" or api.read_only is READS
    if api.on_fault == "refused":
        assert all(api.errors_in(version).is_whole or api.errors_in(version).rows for version in versions[1:])


@EVERY_API
def test_an_api_that_would_change_something_has_a_place_for_the_error_of_a_read_only_broker(api: Api) -> None:
    if api.read_only is READS or api.key is ApiKey.ALTER_USER_SCRAM_CREDENTIALS:  # which has its own response
        return
    versions = range(api.minimum, api.highest(True) + 1)
    assert all(api.errors_in(version).is_whole or api.errors_in(version).rows for version in versions)


def test_a_transaction_version_begins_with_a_version_that_is_served() -> None:
    assert all(API_TABLE[key].minimum < since <= API_TABLE[key].maximum for key, since in TRANSACTION_V2_SINCE.items())


@EVERY_API
def test_topics_are_named_by_their_id_alone_from_the_version_on_that_drops_their_name(api: Api) -> None:
    rows = [
        structure
        for structure in message(api, "request").structure.nested()
        if {field.name for field in structure.fields} & {"name", "topic"}
    ]
    by_id = [
        version
        for version in range(api.minimum, api.highest(True) + 1)
        for names in (fields(row, version).keys() for row in rows)
        if "topic_id" in names and not names & {"name", "topic"}
    ]
    assert api.topic_ids_since == min(by_id, default=None)
