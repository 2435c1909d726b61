"""The listeners on docs/operate/security.md open as they are written there."""

import re
from pathlib import Path

import pytest

from oncelog.broker.config.settings import load_config
from oncelog.broker.net.door import Door
from oncelog.broker.requests.dispatch import Dispatcher
from tests.fakes.broker import VirtualBroker
from tests.support.security.certificates import Certificates

_PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
_RECIPES = [block for block in re.findall(r"```properties\n(.*?)```", _PAGE, re.DOTALL) if "listeners=S" in block]
_PARTS = [block for block in re.findall(r"```properties\n(.*?)```", _PAGE, re.DOTALL) if "ssl.client.auth" in block]


def overrides(text: str, certificates: Certificates, directory: Path) -> list[str]:
    text = text.replace("/etc/oncelog/broker.pem", certificates.server_path)
    (directory / "server.properties").write_text(
        text.replace("/etc/oncelog/clients-ca.pem", certificates.authority_path)
    )
    config, warnings = load_config(file=directory / "server.properties")
    assert not warnings
    return [f"{name}={setting.value}" for name, setting in config._static.items()]


def test_each_recipe_is_found() -> None:
    assert len(_RECIPES) >= 4
    assert len(_PARTS) == 1


@pytest.mark.parametrize("recipe", [*_RECIPES, _RECIPES[0] + _PARTS[0]])
def test_a_listener_of_the_page_opens(recipe: str, certificates: Certificates, tmp_path: Path) -> None:
    virtual = VirtualBroker(*overrides(recipe, certificates, tmp_path))
    (listener,) = virtual.broker.config.listeners
    Door(virtual.broker, Dispatcher(virtual.broker), listener.name, listener.protocol)
    assert listener.protocol.has_tls
