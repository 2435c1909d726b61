"""A range that ApiVersions lists is served: each version of each API gets an answer that its clients can read."""

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.fakes.broker import Reply, VirtualBroker
from tests.support.requests.listed_versions import EVERY_VERSION
from tests.support.requests.messages import filled_request


@pytest.fixture(scope="module")
def broker() -> VirtualBroker:
    running = VirtualBroker()
    running.ask(CreateTopicsRequest(topics=[CreatableTopic(name="topic", num_partitions=1, replication_factor=1)]), 4)
    return running


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=lambda value: getattr(value, "name", str(value)))
def test_each_request_is_answered(broker: VirtualBroker, api: Api, version: int) -> None:
    message = filled_request(api)
    reply: Reply = broker.send(message, version)
    broker.time.advance(400_000)
    if api.key is ApiKey.PRODUCE:
        # acks=0 with a batch that is none: the connection is closed, as Kafka does.
        with pytest.raises(AssertionError, match="acks=0"):
            _ = reply.message
        return
    assert reply.is_there
    assert type(reply.message).__name__ == type(message).__name__.replace("Request", "Response")
