"""The console shows Apache Kafka as it shows this broker: the same batches, fates, bounds and pending offsets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.console.pages import PAGES
from oncelog.testing import Broker
from tests.support.console.consoles import OURS, console, letters_of, text_of
from tests.support.console.scene import scene
from tests.support.kafka.server import Kafka

pytestmark = pytest.mark.kafka
PLACES = [{"topic": "orders", "partition": str(number)} for number in range(3)] + [
    {"topic": "payments", "partition": "0"}
]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    kafka = Kafka(tmp_path)
    yield kafka
    kafka.stop()


async def maps(bootstrap: str) -> list[str]:
    async with console(bootstrap) as client:
        return [letters_of((await client.get("/partition", params=place)).text) for place in PLACES]


async def test_the_same_story_is_the_same_picture_and_a_fence_works(kafka: Kafka) -> None:
    with scene(kafka.bootstrap), Broker() as broker, scene(broker.bootstrap_servers):
        assert await maps(kafka.bootstrap) == await maps(broker.bootstrap_servers)
        async with console(kafka.bootstrap) as client:
            for path, page in PAGES.items():
                if "{" not in page.title:
                    assert (await client.get(path)).status_code == 200, path
            page = text_of((await client.get("/partition", params=PLACES[0])).text)
            assert "last stable offset 13" in page and "high watermark 21" in page and "log end offset 21" in page
            assert "till-2" in page
            group = text_of((await client.get("/group?id=billing")).text)
            assert "orders -2 3 O 7 till-2" in group
            one = text_of((await client.get("/transaction?id=till-2")).text)
            assert "Empty → Ongoing" in one
            assert (await client.get("/producers", params=PLACES[0])).status_code == 200
            assert (await client.post("/fence?id=till-2", headers=OURS)).status_code == 303
            assert "till-2" not in text_of((await client.get("/partition", params=PLACES[0])).text)
