"""Opens a page in a headless Chromium and asks it questions; for tests of the pages that AIR writes.

    with Browser() as browser:
        tab = browser.open(path, width=390, dark=True)
        assert tab.ask("document.title") == "step"
        assert not tab.complaints
        tab.picture(tmp_path / "page.png")

It speaks Chromium's own protocol through a pipe, so nothing but the browser has to be installed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S: Final = 60.0


def find() -> str | None:
    """The browser of this machine; None without one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class BrowserError(RuntimeError):
    """The browser ended, or a script of a test raised in the page."""


class Browser:
    """One process of the browser; pages are opened in it one after the other."""

    def __init__(self) -> None:
        found = find()
        if found is None:
            raise BrowserError(f"no browser on PATH: one of {', '.join(NAMES)}")
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # the protocol is spoken on the descriptors 3 and 4; a shell puts the pipes there, wherever they were
        command = (
            f'exec "$0" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe '
            f"--no-first-run --hide-scrollbars --user-data-dir={self._folder.name} about:blank "
            f"3<&{to_browser} 4>&{from_browser} 2>/dev/null >/dev/null"
        )
        shell = shutil.which("bash") or "sh"
        self._process = subprocess.Popen([shell, "-c", command, found], pass_fds=(to_browser, from_browser))
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def send(self, method: str, session: str | None = None, **given: Any) -> dict[str, Any]:
        """One command of the protocol and its answer; what is told meanwhile goes to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer.get("result", {})
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._read, 1 << 20)
            if not got:
                raise BrowserError("the browser ended")
            self._rest += got
        text, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def open(self, path: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> Tab:
        """A page in a tab of this size and scheme, once it has been loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target)
        for domain in ("Page", "Runtime", "Log"):
            tab.send(f"{domain}.enable")
        tab.show(width=width, height=height, dark=dark)
        tab.send("Page.navigate", url=path.resolve().as_uri())
        tab.wait("document.readyState === 'complete'")
        return tab


class Tab:
    """One open page."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def send(self, method: str, **given: Any) -> dict[str, Any]:
        """One command of the protocol, to this page."""
        return self._browser.send(method, self._session, **given)

    def show(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """The same page in a window of another size, or in the other scheme."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, a promise's once it is known."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise BrowserError(told.get("exception", {}).get("description") or told["text"])
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression of the page is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.ask(expression):
            if time.monotonic() > until:
                raise BrowserError(f"the page was never so that {expression}")
            time.sleep(0.01)

    def settle(self) -> None:
        """Until the page has drawn what it was asked to."""
        self.ask("new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go))).then(() => true)")

    def press(self, key: str) -> None:
        """One key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, x: float, y: float, times: int = 1) -> None:
        """The left button of the mouse."""
        for count in range(1, times + 1):
            at = {"x": x, "y": y, "button": "left", "clickCount": count}
            self.send("Input.dispatchMouseEvent", type="mousePressed", **at)
            self.send("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def picture(self, path: Path) -> Path:
        """What is seen, as a PNG file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))
        return path

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and what the page asked of the network, so far."""
        self.settle()
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            given = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(
                    given["exceptionDetails"].get("exception", {}).get("description", "an exception")
                )
            elif event["method"] == "Runtime.consoleAPICalled" and given["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(" ".join(str(each.get("value", "")) for each in given["args"]))
            elif event["method"] == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"]["text"])
        return found

    @property
    def overflows(self) -> float:
        """By how many pixels the page is wider than its window."""
        return float(self.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    @property
    def first_paint_ms(self) -> float:
        """When something was seen for the first time, from the start of loading."""
        self.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
        return float(self.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime"))

    def close(self) -> None:
        """Closes the tab."""
        self._browser.send("Target.closeTarget", targetId=self._target)
