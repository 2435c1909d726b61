"""The page for teaching: its exercises lead to what its answers say."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from oncelog.console.holding import STEPS
from oncelog.console.reading import Reader
from oncelog.testing import Broker
from tests.support.console import chromium
from tests.support.console.chromium import Chromium
from tests.support.console.consoles import serving
from tests.support.console.lesson import CONFIG, Lesson
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_MS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "start" / "teaching.md"


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on the PATH")
def test_a_class_sees_what_the_answers_say() -> None:
    """Every exercise, in a browser, against a broker that is started as the page starts it."""
    with Broker(config=CONFIG) as broker:
        reader = Reader(broker.bootstrap_servers, PATIENCE_MS, faults=broker._running().admin_port())
        with serving(reader) as address, Chromium() as browser:
            page = browser.open("about:blank")
            lesson = Lesson(page, address, broker)
            lesson.run()
            assert page.take_errors() == []
    assert lesson.maps == re.findall(r"`([.CAOca]{2,})`", PAGE.read_text(encoding="utf-8"))


def test_the_commands_of_the_page_start_a_broker_and_a_console_that_holds_and_writes(tmp_path: Path) -> None:
    """The commands run as they stand on the page, but on free ports."""
    kafka, admin = (f"127.0.0.1:{port}" for port in free_ports(2))
    serve, console = re.findall(r"^oncelog (.*?)(?: &|  +#.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    started = f"{serve} --listen {kafka}".replace("127.0.0.1:9644", admin)
    shown = f"{console} --listen 127.0.0.1:0 -b {kafka}".replace("127.0.0.1:9644", admin)
    with _started(started, tmp_path) as broker, _started(shown, tmp_path) as (_, address):
        assert broker[1] == kafka
        written = httpx.post(
            f"http://{address}/produce",
            data={"topic": "payments", "value": "100 to Ann", "partition": "1"},
            headers={"origin": f"http://{address}"},
        )
        assert "offset=0" in written.headers["location"]
        assert "Nothing is held" in httpx.get(f"http://{address}/hold").text


@contextmanager
def _started(command: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it says it is ready at."""
    words = [sys.executable, "-m", "oncelog", *command.split()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            yield process, said.rpartition("ready ")[2].removeprefix("at http://").partition(";")[0].strip()
        finally:
            process.send_signal(signal.SIGINT)


def test_the_page_has_an_answer_for_each_exercise_and_names_steps_as_the_console_does() -> None:
    """Exercises and answers have the same numbers, and the steps have the names that the console shows."""
    text = PAGE.read_text(encoding="utf-8")
    exercises, _, answers = text.partition("## Answers")
    numbers = re.findall(r"^### (\d+)\.", exercises, re.MULTILINE)
    assert numbers == re.findall(r"^\*\*(\d+)\.", answers, re.MULTILINE) == [str(each + 1) for each in range(7)]
    assert f"num.partitions={CONFIG['num.partitions']}" in exercises
    named = set(re.findall(r"Hold `transfers` where \*([^*]+)\*", exercises))
    assert named and named <= {each.title for each in STEPS}
