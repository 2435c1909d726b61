"""An error that a rule answers can be read by every client that asks, in every version."""

from importlib import import_module
from typing import Any

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.faults.error_answers import error_names, has_place_for_error
from oncelog.broker.faults.request_subjects import partitions_of, transactional_ids_of
from oncelog.broker.faults.rule import Action, Point, Rule, RuleError, Selector
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec_parts import snake_case
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.message import Message
from tests.fakes.broker import VirtualBroker
from tests.support.requests.listed_versions import EVERY_VERSION
from tests.support.requests.messages import filled

ERROR = ErrorCode.NOT_COORDINATOR
PRIMITIVES = {
    "partitions": [0],
    "partition_indexes": [0],
    "groups": ["topic"],
    "coordinator_keys": ["topic"],
    "transactional_ids": ["topic"],
}
NO_PLACE_THEN = {(ApiKey.ELECT_LEADERS, 0)}
"""Its first version has no error over all of it."""


@pytest.fixture(scope="module")
def broker() -> VirtualBroker:
    running = VirtualBroker()
    running.ask(CreateTopicsRequest(topics=[CreatableTopic(name="topic", num_partitions=1, replication_factor=1)]), 4)
    return running


def with_rows(message: Any) -> Any:
    """Numbers and names where `filled` leaves an empty list."""
    if isinstance(message, Message):
        for name in message.FIELDS:
            value = getattr(message, name)
            if isinstance(value, list | tuple) and not value and name in PRIMITIVES:
                setattr(message, name, PRIMITIVES[name])
            for part in value if isinstance(value, list) else (value,):
                with_rows(part)
    return message


def request_of(api: Api) -> Any:
    declarations = import_module(f"oncelog.protocol.messages.{api.name}")
    request = getattr(declarations, f"{api.name}_request".upper())
    return with_rows(filled(request.structure, import_module(f"oncelog.protocol.generated.{snake_case(request.name)}")))


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=lambda value: getattr(value, "name", str(value)))
def test_an_error_is_said_in_the_shape_of_the_answer_or_the_rule_is_refused(
    broker: VirtualBroker, api: Api, version: int
) -> None:
    rule = Rule(Point.REQUEST, Action.ERROR, Selector(api=api.key), error=ERROR)
    if not has_place_for_error(api.key):
        with pytest.raises(RuleError, match="has errors per row"):
            broker.faults.plant(rule)
        return
    planted = broker.faults.plant(rule)
    reply = broker.send(request_of(api), version)
    broker.time.advance(400_000)
    assert planted.is_consumed
    broker.faults.remove(planted)
    if api.key is ApiKey.PRODUCE:  # the filled request has acks=0
        assert reply.is_there
        return
    names = error_names(reply.message)
    assert names == ([] if (api.key, version) in NO_PLACE_THEN else [ERROR.name])


def test_what_changes_something_for_a_transaction_always_has_a_place() -> None:
    for key in (
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
    ):
        assert has_place_for_error(key)


def test_the_subjects_of_every_request_that_names_them_are_found(broker: VirtualBroker) -> None:
    """They are found by name, so a schema that grows a field elsewhere fails here and not silently."""
    with_ids, with_partitions = set(), set()
    for api in API_TABLE.values():
        request = request_of(api)
        if transactional_ids_of(request):
            with_ids.add(api.key)
        if partitions_of(broker.broker.topics, request):
            with_partitions.add(api.key)
    # Produce and InitProducerId have null unless one is given.
    assert with_ids >= {
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
    assert with_partitions >= {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
