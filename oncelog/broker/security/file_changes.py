"""The files of keys, certificates and tokens while the broker runs: read again on request, and watched for their end.

Owns: what is said of them, in the log and at `/readyz`. Does not own: reading them (`FileReader`: the door of a
listener, an HTTP port), when they are to be read again (`broker.daemon.signals`).
Invariant: whatever cannot be used leaves in place what was read before, with a line that says so.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from oncelog.broker.config.live import FileReader
from oncelog.broker.config.settings import ConfigError
from oncelog.broker.turns.ports import WallMs

WARN_S = 30 * 86_400
"""How long before its end a certificate is warned of: who renews by hand needs days, and Let's Encrypt's clients renew
30 days before."""
HOW_TO_REPLACE = "replace its file and send SIGHUP (systemctl reload), without a restart"
_AGAIN_MS = 86_400_000


class EndingCertificate(NamedTuple):
    """A certificate that ends soon, or has ended."""

    listener_name: str
    end_s: int
    seen_ms: WallMs
    """When it was looked at."""

    @property
    def left_s(self) -> int:
        return self.end_s - self.seen_ms // 1_000

    @property
    def has_ended(self) -> bool:
        return self.left_s <= 0

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d", time.gmtime(self.end_s))
        whose = f"the certificate of listener {self.listener_name}"
        if self.has_ended:
            return f"{whose} ended on {day}, and clients refuse it: {HOW_TO_REPLACE}"
        return f"{whose} ends on {day}, in {self.left_s // 86_400} days: {HOW_TO_REPLACE}"


def ending(readers: Iterable[FileReader], wall_ms: WallMs) -> Iterator[EndingCertificate]:
    for each in readers:
        end_s = each.certificate_end_s
        if end_s is not None and end_s - wall_ms // 1_000 < WARN_S:
            yield EndingCertificate(each.listener_name, end_s, wall_ms)


class CertificateWatch:
    """Logs a certificate that ends soon, or has ended: when that begins, and then once a day."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._said: dict[str, EndingCertificate] = {}
        """The last of each listener."""

    def step(self, readers: Iterable[FileReader], wall_ms: WallMs) -> None:
        for found in ending(readers, wall_ms):
            said = self._said.get(found.listener_name)
            is_same = said is not None and (said.end_s, said.has_ended) == (found.end_s, found.has_ended)
            if said is not None and is_same and found.seen_ms - said.seen_ms < _AGAIN_MS:
                continue
            self._said[found.listener_name] = found
            write = self._log.error if found.has_ended else self._log.warning
            event = "certificate.ended" if found.has_ended else "certificate.ends_soon"
            write(event, listener=found.listener_name, message=str(found))


def reload_files(readers: Iterable[FileReader], log: Any) -> None:
    """Read all files again, and log what is different."""
    changed, kept, count = [], [], 0
    for each in readers:
        count += 1
        try:
            changed += [f"{each.listener_name} has {words}" for words in each.reload()]
        except ConfigError as error:
            kept.append(each.listener_name)
            log.error(
                "files.not_usable",
                listener=each.listener_name,
                error=str(error),
                message="what was read before stays in use: mend this, and send SIGHUP again",
            )
    message = "; ".join(changed) or ("nothing else is different" if kept else "nothing is different")
    if not count:
        message = "no setting names a file with a key, certificates or a token: there is nothing to read again"
    log.info("broker.reloaded", message=message, changed=len(changed), kept=kept)
