"""Headless Chromium through its own pipe, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

WAIT = 60.0  # seconds, on a busy machine


def binary() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


class Page:
    """One page. What it asks of a network and what it complains of are collected."""

    def __init__(self, profile: Path) -> None:
        read_by_it, self._out = os.pipe()
        self._in, written_by_it = os.pipe()
        words = [str(binary()), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking",
                 "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        # It reads its orders from 3 and answers on 4.
        line = f"exec {shlex.join(words)} 3<&{read_by_it} 4>&{written_by_it}"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", line], pass_fds=(read_by_it, written_by_it), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_by_it)
        os.close(written_by_it)
        self._said = b""
        self._count = 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._events: list[str] = []
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        order: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._out, json.dumps(order).encode() + b"\0")
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            message = self._next()
            if message.get("id") == self._count:
                assert "error" not in message, message
                return dict(message["result"])
        raise TimeoutError(method)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._said:
            more = os.read(self._in, 1 << 16)
            if not more:
                raise ConnectionError("chromium is gone")
            self._said += more
        text, _, self._said = self._said.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        method, said = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"][:200])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(said)[:500])
        return message

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        phone = width < 600
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.complaints.clear()
        self._events.clear()
        self.do("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def ask(self, expression: str) -> Any:
        found = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def hover(self, selector: str) -> None:
        where = self.ask(
            f"(async () => {{ const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            # What scrolling sets off comes with the next frame.
            "await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.do("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9)

    def close(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, OSError, AssertionError):
            self._session = ""
            self.do("Browser.close")
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # the group that was started here
            self._process.wait()
