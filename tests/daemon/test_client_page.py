"""The pages about the client and its part of the README run as they stand."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

import oncelog
from oncelog import Admin, KafkaError
from oncelog.sync import Producer
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.slow

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCS = Path(__file__).parent.parent.parent / "docs" / "clients"
_CLIENT = _DOCS / "client.md"
_WITH_SCRIPTS = [
    _DOCS.parent.parent / "README.md",
    _CLIENT,
    *(_DOCS / f"client-{name}.md" for name in ("producer", "consumer", "objects", "transactions", "errors")),
]


def scripts(page: Path) -> list[str]:
    return [each for each in _BLOCK.findall(page.read_text(encoding="utf-8")) if "from oncelog" in each]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", _WITH_SCRIPTS, ids=lambda page: page.stem)
def test_every_script_of_a_page_runs_as_it_stands(start_daemon: Callable[..., Daemon], page: Path) -> None:
    daemon = start_daemon("group.initial.rebalance.delay.ms=0", "oncelog.flush.policy=os")
    with Producer(daemon.bootstrap) as producer:
        producer.send("orders", b"41", key=b"customer-6")  # what the scripts read
    found = scripts(page)
    assert found
    for script in found:
        text = script.replace("localhost:9092", daemon.bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stderr}"


@pytest.mark.parametrize("script", scripts(_DOCS / "client-security.md"))
async def test_a_client_of_the_page_about_security_can_be_made_as_it_stands(script: str, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    found: dict[str, Any] = {"CA_FILE": str(authority), "PASSWORD": "secret"}
    exec(script, found)
    if "main" in found:
        with Broker() as broker:
            async with Admin(broker.bootstrap_servers) as admin:
                await found["main"](admin)


def test_the_page_of_errors_has_each_of_them() -> None:
    text = (_DOCS / "client-errors.md").read_text(encoding="utf-8")
    names = [name for name in oncelog.__all__ if issubclass_of_errors(name)]
    assert len(names) > 15
    assert [name for name in names if f"`{name}`" not in text] == []


def issubclass_of_errors(name: str) -> bool:
    found = getattr(oncelog, name)
    return isinstance(found, type) and issubclass(found, KafkaError)


def test_the_page_names_each_method_of_admin() -> None:
    methods = [name for name, _ in inspect.getmembers(Admin, inspect.isfunction) if not name.startswith("_")]
    text = _CLIENT.read_text(encoding="utf-8")
    assert [name for name in methods if name != "close" and f"`{name}`" not in text] == []
