"""An API with nothing behind it says its one error, whatever is asked, and needs no module of its own."""

from importlib.util import find_spec
from uuid import UUID

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.faults.error_answers import error_names
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_acls_request import AclCreation, CreateAclsRequest
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.write_share_group_state_request import (
    PartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.fakes.broker import VirtualBroker
from tests.support.adversary import Stored, attacks

REFUSED = {api: api.refusal for api in API_TABLE.values() if api.refusal is not None}
STORED = Stored(["topic"], [UUID(int=1)], ["group"], ["id"])


@pytest.fixture(scope="module")
def broker() -> VirtualBroker:
    return VirtualBroker()


def test_the_refused_apis_are_those_of_the_table_and_no_others_lack_a_module() -> None:
    for api in API_TABLE.values():
        assert api.is_refused == (find_spec(f"oncelog.broker.handlers.{api.name}") is None)


@pytest.mark.parametrize("api", REFUSED, ids=lambda api: api.name)
def test_each_version_says_the_error_of_the_table_and_no_other(broker: VirtualBroker, api: Api) -> None:
    for version in range(api.minimum, api.maximum + 1):
        answers = [broker.ask(attack.message(STORED, 5), version) for attack in attacks(api, version)]
        assert {name for answer in answers for name in error_names(answer)} == {REFUSED[api].error.name}


def test_each_row_of_a_request_has_its_row_in_order_with_what_identifies_it(broker: VirtualBroker) -> None:
    topic_ids = UUID(int=7), UUID(int=8)
    topics = [
        WriteStateData(topic_id=topic_id, partitions=[PartitionData(partition=3), PartitionData(partition=1)])
        for topic_id in topic_ids
    ]
    results = broker.ask(WriteShareGroupStateRequest(group_id="g", topics=topics), 1).results
    assert [(topic.topic_id, row.partition) for topic in results for row in topic.partitions] == [
        (topic_ids[0], 3),
        (topic_ids[0], 1),
        (topic_ids[1], 3),
        (topic_ids[1], 1),
    ]
    assert {row.error_code for topic in results for row in topic.partitions} == {ErrorCode.NOT_COORDINATOR}
    groups = broker.ask(StreamsGroupDescribeRequest(group_ids=["b", "a", "b"]), 0).groups
    assert [group.group_id for group in groups] == ["b", "a", "b"]
    assert len(broker.ask(CreateAclsRequest(creations=[AclCreation()] * 3), 3).results) == 3
