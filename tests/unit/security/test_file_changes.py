"""Keys, certificates and tokens while the broker runs: read again, watched for their end."""

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from oncelog.broker.config.settings import ConfigError
from oncelog.broker.security.file_changes import WARN_S, CertificateWatch, ending, reload_files
from oncelog.broker.turns.ports import WallMs

DAY_S = 86_400
END_S = 1_800_000_000


def at(second: int) -> WallMs:
    return WallMs(second * 1_000)


class Reader:
    """Stands for a reader of files, with the state that a test gives it."""

    def __init__(self, end_s: int | None = END_S, found: Sequence[str] = (), error: str = "") -> None:
        self.listener_name = "SSL"
        self.certificate_end_s = end_s
        self._found = found
        self._error = error

    def reload(self) -> Sequence[str]:
        if self._error:
            raise ConfigError(self._error)
        return self._found


def said(log: CapturingLogger) -> list[tuple[str, str]]:
    return [(call.method_name, call.args[0]) for call in log.calls]


def messages(log: CapturingLogger) -> list[Any]:
    return [call.kwargs["message"] for call in log.calls]


@pytest.mark.parametrize(
    ("before_s", "words"),
    [
        (WARN_S + 1, None),
        (WARN_S - 1, "ends on 2027-01-15, in 29 days: replace its file and send SIGHUP"),
        (1, "in 0 days"),
        (0, "ended on 2027-01-15, and clients refuse it"),
        (-400 * DAY_S, "ended on 2027-01-15"),
    ],
)
def test_a_certificate_is_named_from_30_days_before_its_end(before_s: int, words: str | None) -> None:
    found = [str(each) for each in ending([Reader(), Reader(None)], at(END_S - before_s))]
    assert found == [] if words is None else (len(found) == 1 and words in found[0] and "listener SSL" in found[0])


def test_the_log_says_it_once_a_day_and_when_it_has_ended() -> None:
    log = CapturingLogger()
    watch = CertificateWatch(log)
    for second in range(END_S - 2 * DAY_S, END_S + DAY_S, 3_600):
        watch.step([Reader()], at(second))
    assert said(log) == [("warning", "certificate.ends_soon")] * 2 + [("error", "certificate.ended")]


def test_a_renewed_certificate_that_ends_soon_is_said_at_once() -> None:
    log = CapturingLogger()
    watch = CertificateWatch(log)
    for end_s in (END_S, END_S + 1, END_S + 1, END_S + WARN_S):
        watch.step([Reader(end_s)], at(END_S - DAY_S))
    assert len(log.calls) == 2


@pytest.mark.parametrize(
    ("readers", "expected", "words"),
    [
        ([], ["broker.reloaded"], "nothing to read again"),
        ([Reader()], ["broker.reloaded"], "nothing is different"),
        ([Reader(found=["a key"])], ["broker.reloaded"], "SSL has a key"),
        (
            [Reader(error="no key"), Reader(found=["a token"])],
            ["files.not_usable", "broker.reloaded"],
            "SSL has a token",
        ),
        ([Reader(error="no key")], ["files.not_usable", "broker.reloaded"], "nothing else is different"),
    ],
)
def test_a_reload_says_what_is_different_and_what_stays(readers: list[Reader], expected: list[str], words: str) -> None:
    log = CapturingLogger()
    reload_files(readers, log)
    assert [event for _, event in said(log)] == expected
    assert words in messages(log)[-1]
    if len(expected) == 2:
        assert "send SIGHUP again" in messages(log)[0]
