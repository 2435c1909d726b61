"""The lesson of docs/start/teaching.md, as a class does it: with a browser and nothing else.

Owns: every step of its exercises, and what must be seen then. Does not own: the page's words; the test of it compares
the maps that it shows with those that were seen here, and `make pictures WHAT=console` takes its pictures at the
same steps.
"""

import json
from collections.abc import Callable

from oncelog.testing import Broker
from tests.support.console.chromium import Page

CONFIG = {"num.partitions": 2}
"""The settings with which the page starts its broker."""
_MINUTE_MS = 60_000


class Lesson:
    """A tab that goes through the exercises in their order."""

    def __init__(self, page: Page, address: str, broker: Broker) -> None:
        self._page = page
        self._address = address
        self._broker = broker
        self.maps: list[str] = []
        """The maps of partitions in the order in which they were looked at."""

    def run(self, at: Callable[[str], None] = lambda name: None) -> None:
        """Do all exercises; `at` is called where the page has a picture."""
        self._an_open_transaction(at)
        self._commit_and_abort()
        self._the_point_of_no_return(at)
        self._a_zombie(at)
        self._a_lost_response()
        self._a_late_commit()
        self._what_was_aborted(at)

    # --- the exercises ------------------------------------------------------------------------------------------------

    def _an_open_transaction(self, at: Callable[[str], None]) -> None:
        self._produce(value="100 to Ann")
        self._produce(value="30 from Ann", transaction="new", id="transfers")
        self._produce(value="5 to Bob", transaction="")
        self._map(0)
        self._see("waits for transactions to end2 offsets")
        at("open")
        assert self._read() == [b"100 to Ann"]

    def _commit_and_abort(self) -> None:
        self._end("commit", 1)
        self._map(0)
        self._produce(value="900 from Bob", transaction="new", id="transfers")
        self._end("abort", 2)
        self._map(0)
        assert self._read() == [b"100 to Ann", b"30 from Ann", b"5 to Bob"]

    def _the_point_of_no_return(self, at: Callable[[str], None]) -> None:
        self._hold("transfers", "decided")
        self._produce(value="20 from Ann", transaction="new", id="transfers")
        self._produce(value="20 to Bob", partition="1", transaction="3")
        self._end("commit", 3)
        self._go("/transaction?id=transfers")
        self._see("PrepareCommit")
        assert not self._page.value("document.querySelector('a.danger')")
        self._go("/produce")
        self._see("3transferscommittedPrepareCommit")
        self._go("/hold")
        self._see("marker of payments-1, transfers")
        at("held")
        read = len(self._read())
        self._page.click("[id^=one-]")
        self._read_as_many_as(read + 1)
        self._page.click("[id^=all-]")
        self._go("/transaction?id=transfers")
        self._see("CompleteCommit")
        self._read_as_many_as(read + 2)

    def _a_zombie(self, at: Callable[[str], None]) -> None:
        self._produce(value="7 from Ann", transaction="new", id="transfers")
        self._produce(value="8 from Ann", transaction="new", id="transfers")
        at("zombie")
        self._end("commit", 4)
        self._see("4transfersfenced")
        self._end("commit", 5)
        assert [each for each in self._read() if each in (b"7 from Ann", b"8 from Ann")] == [b"8 from Ann"]

    def _a_lost_response(self) -> None:
        self._hold("transfers", "answered")
        self._produce(value="9 from Ann", transaction="new", id="transfers")
        self._end("commit", 6, waits=False)
        self._see("commit asked, no response yetCompleteCommit")
        assert b"9 from Ann" in self._read()
        self._let_all_on()
        self._go("/produce")
        self._see("6transferscommitted")

    def _a_late_commit(self) -> None:
        self._hold("transfers", "asked")
        self._produce(value="11 from Ann", transaction="new", id="transfers", timeout=str(_MINUTE_MS))
        self._end("commit", 7, waits=False)
        self._see("commit asked, no response yetOngoing")
        self._broker.faults.advance_time(2 * _MINUTE_MS)  # the class waits a minute
        self._go("/produce")
        self._see("commit asked, no response yetCompleteAbort")
        self._let_all_on()
        self._go("/produce")
        self._see("7transfersfenced")
        assert b"11 from Ann" not in self._read()

    def _what_was_aborted(self, at: Callable[[str], None]) -> None:
        self._go("/search?topic=payments")
        self._page.value("document.querySelector('[name=state]').value = 'ABORTED'")
        self._page.click(".filters button")
        self._see("3 messages found")
        at("search")

    # --- the console --------------------------------------------------------------------------------------------------

    def _go(self, path: str) -> None:
        self._page.go(self._address + path)

    def _see(self, words: str) -> None:
        """Wait until the page shows these words, which may be in elements side by side."""
        self._page.wait(
            f"document.getElementById('view').textContent.replaceAll('\\n', '').includes({json.dumps(words)})"
        )

    def _see_no_more(self, words: str) -> None:
        self._page.wait(f"!document.getElementById('view').textContent.includes({json.dumps(words)})")

    def _produce(self, **fields: str) -> None:
        self._go("/produce")
        for name, text in ({"topic": "payments", "partition": "0"} | fields).items():
            self._page.value(f"document.getElementById({name!r}).value = {json.dumps(text)}")
        self._page.click("#send")
        self._see_no_more("not acknowledged")

    def _end(self, how: str, number: int, *, waits: bool = True) -> None:
        self._go("/produce")
        self._page.click(f"#{how}-{number}")
        if waits:
            self._see_no_more("no response yet")

    def _hold(self, transactional_id: str, step: str) -> None:
        self._go("/hold")
        self._page.value(f"document.getElementById('of').value = {transactional_id!r}")
        self._page.value(f"document.getElementById('step').value = {step!r}")
        self._page.click("#hold")
        self._see("nothing yet")

    def _let_all_on(self) -> None:
        self._go("/hold")
        self._page.click("[id^=all-]")

    def _map(self, partition: int) -> None:
        self._go(f"/partition?topic=payments&partition={partition}")
        letters = "[...document.querySelectorAll('.strip a')].map((each) => each.textContent).join('')"
        self.maps.append(self._page.value(letters))

    def _read_as_many_as(self, count: int) -> None:
        while len(self._read()) < count:
            pass
        assert len(self._read()) == count

    def _read(self) -> list[bytes | None]:
        """Returns the values that a read_committed reader gets."""
        return [each.value for each in self._broker.records("payments")]
