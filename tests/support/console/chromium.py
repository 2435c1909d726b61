"""A headless Chromium of this machine, driven through its DevTools protocol over a pipe: no driver to install.

Owns: the process, its profile in a temporary directory, one message at a time. Waits are the browser's own: an
expression that awaits something in the page.

    with Chromium() as browser:
        page = browser.open("http://127.0.0.1:8480/")
        assert page.value("document.title") == "Overview"
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tests.support.patience import PATIENCE_MS, PATIENCE_S

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
"""The path of Chromium; None if there is none, and tests skip."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # as root, in containers; what is opened is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)
_WAIT = """new Promise((resolve, reject) => {
  const until = Date.now() + %d;
  const look = () => { try { const found = (%s); if (found) return resolve(found); } catch (error) { reject(error); }
    if (Date.now() > until) return resolve(null); setTimeout(look, 20); };
  look(); })"""


class Chromium:
    """The browser, for a `with` block."""

    def __init__(self) -> None:
        if PROGRAM is None:
            raise RuntimeError("there is no Chromium on the PATH")
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        flags = [*_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, PROGRAM, *flags],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._read = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.send("Browser.close")
        self._process.wait(PATIENCE_S)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str) -> "Page":
        """A tab of its own, loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        page.go(url)
        return page

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of one command. What comes before it is kept in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """The next event of this kind that has not been waited for."""
        while True:
            for number, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events.pop(number)
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._read += data
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@dataclass
class Page:
    """One tab."""

    browser: Chromium
    target: str
    session: str

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **parameters)

    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.browser.wait_for("Page.loadEventFired", self.session)

    def click(self, selector: str) -> None:
        """Click what leads to another page, and wait until that is loaded."""
        self.value(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait_loaded()

    def wait_loaded(self) -> None:
        """Wait until another page is loaded, to which something has led."""
        self.browser.wait_for("Page.loadEventFired", self.session)

    def mouse(self, kind: Literal["mousePressed", "mouseReleased"], selector: str) -> None:
        """Press or release the left button of a real mouse on the middle of an element."""
        box = self.value(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
            "found.scrollIntoView({block: 'center'}); const box = found.getBoundingClientRect(); "
            "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        for each in ("mouseMoved", kind) if kind == "mousePressed" else (kind,):
            button = {} if each == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=each, x=box[0], y=box[1], **button)

    def key(self, name: str, code: str, text: str = "", *, number: int) -> None:
        """Press and release a key of a real keyboard; `number` is its virtual key code."""
        pressed = {"key": name, "code": code, "windowsVirtualKeyCode": number}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.send("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def value(self, expression: str) -> Any:
        """Evaluates a script in the page, and returns its value. Raises RuntimeError if it throws."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The expression's value once it is true. Raises TimeoutError."""
        found = self.value(_WAIT % (PATIENCE_MS, expression))
        if found is None:
            raise TimeoutError(f"{expression} was not true within {PATIENCE_MS} ms")
        return found

    def take_errors(self) -> list[str]:
        """Returns the lines of the browser's console for this tab since the last call: exceptions, refusals."""
        self.value("0")  # what was said before is received by then
        ours = [each for each in self.browser.events if each.get("sessionId") == self.session]
        self.browser.events = [each for each in self.browser.events if each.get("sessionId") != self.session]
        logged = [each["params"]["entry"] for each in ours if each["method"] == "Log.entryAdded"]
        thrown = [each["params"]["exceptionDetails"] for each in ours if each["method"] == "Runtime.exceptionThrown"]
        return [f"{each['text']} {each.get('url', '')}" for each in (*logged, *thrown)]

    def resize(self, width: int, height: int = 844) -> None:
        size = {"width": width, "height": height}
        self.send("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: Literal["light", "dark"]) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, width: int) -> None:
        """The whole page, as PNG."""
        for height in (1, "document.getElementById('view').getBoundingClientRect().bottom"):
            self.resize(width, height if isinstance(height, int) else round(self.value(height)))
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self.target)
