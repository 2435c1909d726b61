"""The hint of an error about a missing extra is a command that works, wherever the package was installed from."""

import json
import shlex
from importlib import metadata
from pathlib import Path

import pytest

import oncelog
from oncelog.installing import how_to_install


class _Noted(metadata.Distribution):
    def __init__(self, source: object) -> None:
        self._text = None if source is None else json.dumps(source)

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (None, ["oncelog[console]"]),
        ({"url": "file:///a%20b/oncelog", "dir_info": {"editable": True}}, ["-e", "/a b/oncelog[console]"]),
        ({"url": "file:///a/oncelog", "dir_info": {}}, ["oncelog[console] @ file:///a/oncelog"]),
        (
            {"url": "file:///a/oncelog-1-py3-none-any.whl", "archive_info": {"hashes": {}}},
            ["oncelog[console] @ file:///a/oncelog-1-py3-none-any.whl"],
        ),
        (
            {"url": "https://host/oncelog.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["oncelog[console] @ git+https://host/oncelog.git@abc"],
        ),
    ],
)
def test_it_names_what_this_package_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, source: object, command: list[str]
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: _Noted(source))
    assert shlex.split(how_to_install("console")) == ["pip", "install", *command]


def test_sources_that_are_not_installed_are_named_by_their_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    root = Path(oncelog.__file__).resolve().parents[1]
    assert shlex.split(how_to_install("console")) == ["pip", "install", f"{root}[console]"]


@pytest.mark.parametrize("extra", ["console", "postgres", "testing"])
def test_each_extra_that_hints_name_exists(extra: str) -> None:
    assert extra in (metadata.metadata("oncelog").get_all("Provides-Extra") or ())
