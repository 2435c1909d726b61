"""Every page of the console in a real browser, on a phone, a tablet and a desk, light and dark."""

from collections.abc import Iterator

import pytest

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin
from oncelog.console.holding import STEPS
from oncelog.console.reading import Reader
from oncelog.testing import Broker
from tests.support.console import chromium
from tests.support.console.chromium import Chromium, Page
from tests.support.console.consoles import TIMEOUT_MS, address_of, serving
from tests.support.console.layouts import WIDTHS, faults_of
from tests.support.console.scene import ADDRESSES, scene

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on the PATH"),
]
_LONG = "a-name-of-a-topic-that-somebody-chose-to-say-everything-with.v2"


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """A console of the scene, with a witness."""
    with Broker() as broker, scene(broker.bootstrap_servers):
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("hundred", 100), NewTopic(_LONG, 1))
        port = broker._running().admin_port()
        broker.faults.plant(STEPS[-1].rule("till-2"))
        with serving(Reader(broker.bootstrap_servers, TIMEOUT_MS, port, faults=port)) as address:
            yield address
            broker.faults.remove_all()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with Chromium() as browser:
        yield browser.open("about:blank")


@pytest.mark.parametrize(
    "path", [*ADDRESSES, f"/topic?topic={_LONG}", "/topic?topic=hundred", "/topic?topic=nothing", "/no/page"]
)
def test_every_page_is_readable_on_a_phone_and_on_a_desk_in_both_schemes(served: str, page: Page, path: str) -> None:
    """Nothing is wider than the screen, no word is broken, each value has its heading, and the console says nothing."""
    address = served + address_of(path, ADDRESSES.get(path, {}))
    for width in WIDTHS:
        page.resize(width)
        for scheme in ("light", "dark"):
            page.prefer(scheme)
            page.go(address)
            assert faults_of(page) == {}, (width, scheme)
            assert page.value("document.getElementById('view').textContent.trim() !== ''")
    assert [each for each in page.take_errors() if "404" not in each] == []


def test_the_two_schemes_differ(served: str, page: Page) -> None:
    """A page in dark colours is another than one in light ones."""
    seen = []
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        page.go(served)
        seen.append(page.value("getComputedStyle(document.body).backgroundColor"))
    assert seen[0] != seen[1]
