"""One broker that is two nodes: its address stays, and in the middle of a suite another node leads."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.protocol.api_keys import ApiKey
from tests.suites.take_over import Address, taken_over
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres

_TURN_COUNT = 30
_TRANSACTIONS = 40
"""Each has at least two requests that change something."""


@pytest.mark.postgres
def test_transactions_continue_through_take_overs_at_an_address_that_stays(postgres: Postgres, tmp_path: Path) -> None:
    with taken_over(postgres, tmp_path, (), None, _TURN_COUNT) as address:
        servers = {"bootstrap.servers": address, "log_level": 0}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("topic", 1)])["topic"].result(PATIENCE_S)
        producer = Producer({**servers, "transactional.id": "writer"})
        producer.init_transactions(PATIENCE_S)
        for number in range(_TRANSACTIONS):
            producer.begin_transaction()
            producer.produce("topic", str(number))
            producer.commit_transaction(PATIENCE_S)
        with closing(Consumer({**servers, "group.id": "reader", "isolation.level": "read_committed"})) as consumer:
            consumer.assign([TopicPartition("topic", 0, 0)])
            records = consumer.consume(_TRANSACTIONS, PATIENCE_S)
            assert [int(each.value()) for each in records] == [*range(_TRANSACTIONS)]


@pytest.mark.postgres
def test_a_run_without_a_take_over_has_shown_nothing(postgres: Postgres, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="before 30 requests"), taken_over(postgres, tmp_path, (), None, _TURN_COUNT):
        pass


def frame(api_key: ApiKey) -> bytes:
    request = api_key.to_bytes(2) + b"the rest"
    return len(request).to_bytes(4) + request


async def test_a_connection_waits_for_a_leader_and_a_turn_counts_what_changes_something() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
        writer.close()

    turns: list[None] = []
    address = Address(2, lambda: turns.append(None))
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as node:
        host, _, port = (await address.open()).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        sent = b"".join(frame(each) for each in (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.END_TXN, ApiKey.FETCH))
        writer.write(sent)
        await address.lead_to(f"127.0.0.1:{node.sockets[0].getsockname()[1]}")
        assert await reader.readexactly(len(sent)) == sent
        assert len(turns) == 1
        writer.close()
        await address.close()


async def test_the_connections_of_a_killed_leader_are_reset() -> None:
    async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        await address.hold()
        writer.close()

    address = Address(1, lambda: None)
    async with await asyncio.start_server(gone, "127.0.0.1", 0) as node:
        await address.lead_to(f"127.0.0.1:{node.sockets[0].getsockname()[1]}")
        host, _, port = (await address.open()).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(frame(ApiKey.METADATA))
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        await address.close()
