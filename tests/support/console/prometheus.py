"""A Prometheus that scrapes one address and evaluates queries of what it has scraped; `make interop` fetches it.

Owns: the process and its HTTP API. Its data goes to a directory of the caller's.
"""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.support.foreign.interop import PLACE
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S

PROGRAM = PLACE / "prometheus" / "usr" / "bin" / "prometheus"
PROMTOOL = PROGRAM.with_name("promtool")
RATE_INTERVAL_S = 15
"""The value of `$__rate_interval`: like Grafana's, it is a few times the interval of scrapes."""
_SCRAPE_INTERVAL_S = 2
_READY = "ready to receive web requests"


class Prometheus:
    """A Prometheus that runs during a `with` block."""

    def __init__(self, scraped: str, directory: Path) -> None:
        self._settings = directory / "prometheus.yml"
        self._settings.write_text(
            f"global: {{scrape_interval: {_SCRAPE_INTERVAL_S}s}}\n"
            f'scrape_configs: [{{job_name: oncelog, static_configs: [{{targets: ["{scraped}"]}}]}}]\n'
        )
        self.address = f"127.0.0.1:{free_ports(1)[0]}"

    def __enter__(self) -> Self:
        command = [
            PROGRAM,
            f"--config.file={self._settings}",
            f"--storage.tsdb.path={self._settings.with_name('prometheus')}",
            f"--web.listen-address={self.address}",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if _READY in line:
                return self
        self._process.wait()
        raise RuntimeError("".join(said))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that have a value now. Raises HTTPError for what is no query."""
        return [each for each in self._ask("query", query=_ranged(expression)) if each["value"][1] != "NaN"]

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        return self._ask("query_range", query=_ranged(expression), start=start, end=end, step=step)

    def _ask(self, what: str, **arguments: object) -> list[dict[str, Any]]:
        with urlopen(f"http://{self.address}/api/v1/{what}?{urlencode(arguments)}", timeout=PATIENCE_S) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found


def _ranged(expression: str) -> str:
    return expression.replace("$__rate_interval", f"{RATE_INTERVAL_S}s")
