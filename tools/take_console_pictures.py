"""Takes the screenshots of docs/start/console.md, docs/start/teaching.md and docs/operate/witness.md: console_*.png.

    python -m tools.take_console_pictures

It needs a Chromium. The cluster is the scene of the console's tests, with one more transaction that is late, one that
waits for a marker, and a consumer at read_uncommitted. Those of the lesson are taken while it is done.
"""

from pathlib import Path
from typing import Literal

from oncelog.client.blocking.clients import Consumer, Producer
from oncelog.console.reading import Reader
from oncelog.faults import Action, Point, Rule, Selector
from oncelog.testing import Broker
from tests.support.console.chromium import Chromium
from tests.support.console.consoles import serving
from tests.support.console.lesson import CONFIG, Lesson
from tests.support.console.scene import scene

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDTH = 1180
SHOTS: dict[str, tuple[str, Literal["light", "dark"]]] = {
    "console_transactions": ("/transactions", "light"),
    "console_topic": ("/topic?topic=orders", "light"),
    "console_partition": ("/partition?topic=payments&partition=0", "dark"),
    "console_messages": ("/messages?topic=orders&partition=0&from=7", "light"),
    "console_group": ("/group?id=billing", "light"),
    "console_findings": ("/findings", "light"),
}
PHONE = ("console_phone", "/transactions", 390)
_LATE_TIMEOUT_MS = 4_000


def main() -> None:
    _take_the_scene()
    _take_the_lesson()


def _take_the_lesson() -> None:
    with Broker(config=CONFIG) as broker:
        reader = Reader(broker.bootstrap_servers, 3_000, faults=broker._running().admin_port())
        with serving(reader) as address, Chromium() as browser:
            page = browser.open("about:blank")
            page.prefer("light")
            Lesson(page, address, broker).run(
                lambda name: page.screenshot(IMAGES / f"console_lesson_{name}.png", width=WIDTH)
            )


def _take_the_scene() -> None:
    with Broker() as broker, scene(broker.bootstrap_servers):
        late = Producer(broker.bootstrap_servers, transactional_id="import", transaction_timeout_ms=_LATE_TIMEOUT_MS)
        _read_what_is_aborted(broker.bootstrap_servers)
        reader = Reader(broker.bootstrap_servers, 3_000, broker._running().admin_port())
        mover = Producer(broker.bootstrap_servers, transactional_id="stock-mover")
        held = broker.faults.plant(
            Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="stock-mover"), times=None)
        )
        with late as producer, mover, serving(reader) as address, Chromium() as browser:
            with mover.transaction() as transaction:
                transaction.send("payments", b"moved")
            producer.transaction().__enter__().send("payments", b"late")
            page = browser.open("about:blank")
            for name, (path, scheme) in SHOTS.items():
                page.prefer(scheme)
                page.go(f"{address}{path}")
                page.wait("document.getElementById('live').dataset.state === 'live'")
                if path == "/transactions":
                    page.wait("document.querySelector('.life.late')")
                page.screenshot(IMAGES / f"{name}.png", width=WIDTH)
            name, path, width = PHONE
            page.resize(width)
            page.go(f"{address}{path}")
            page.screenshot(IMAGES / f"{name}.png", width=width)
            broker.faults.remove(held)


def _read_what_is_aborted(bootstrap_servers: str) -> None:
    with Consumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        client_id="sales-report",
        group_id="sales",
        isolation_level="read_uncommitted",
        auto_offset_reset="earliest",
    ) as consumer:
        while not consumer.poll(1_000):
            pass


if __name__ == "__main__":
    main()
