"""`import oncelog` has every public name and the version, and loads little."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import oncelog
import oncelog.sync
from oncelog import client
from oncelog.client.admin import client as admin
from oncelog.client.admin import descriptions
from oncelog.client.options import settings
from oncelog.client.values import errors, records
from tests.support.patience import PATIENCE_S


def test_facade_has_the_public_names_of_the_client() -> None:
    assert oncelog.__all__ == client.__all__
    assert all(getattr(oncelog, name) is getattr(client, name) for name in oncelog.__all__)
    assert {"__version__", *oncelog.__all__} <= set(dir(oncelog))


def test_the_version_is_that_of_the_installation() -> None:
    assert oncelog.__version__ == version("oncelog")


def test_dir_lists_nothing_that_the_facade_only_uses_itself() -> None:
    more = {name for name in dir(oncelog) if not name.startswith("__")} - set(oncelog.__all__)
    assert all(isinstance(getattr(oncelog, name), ModuleType) for name in more), more
    assert "sync" in dir(oncelog)


def test_every_error_and_setting_of_the_client_is_public() -> None:
    public = {
        name
        for module in (errors, records, settings, admin, descriptions)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert public <= set(oncelog.__all__)


def test_the_daemon_reads_no_client_and_no_version(tmp_path: Path) -> None:
    code = "import sys, oncelog.cli; print(bool({'oncelog.client', 'importlib.metadata'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.stdout == "False\n"
