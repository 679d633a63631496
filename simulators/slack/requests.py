"""The Events API over HTTP: sends signed requests to the app's URL and retries until they are accepted.

Source: https://docs.slack.dev/apis/events-api/ (retries) and https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
from slack_sdk.signature import SignatureVerifier

from resources import http_clients

RETRIES: Sequence[float] = (0.0, 60.0, 300.0)
"""Seconds before each retry."""
PATIENCE_SECONDS = 3.0


class Requests:
    """Sends events to one URL, in the order in which they happened. Starts with the first event."""

    def __init__(self, secret: str, retries: Sequence[float] = RETRIES) -> None:
        self._secret = secret
        self._retries = retries
        self._queue: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._thread: threading.Thread | None = None
        self.statuses: list[int] = []
        """Status of each response, 0 for none; including retries."""

    def verify(self, url: str) -> None:
        """Verify a URL with a challenge, as Slack does when it is configured. Raises `ValueError`."""
        challenge = f"challenge-{time.monotonic_ns()}"
        answer = self._post(url, {"type": "url_verification", "token": "deprecated", "challenge": challenge}, 0)
        if answer is None or answer.status_code != 200 or challenge not in answer.text:
            raise ValueError(f"{url} did not answer with the value of the challenge")

    def deliver(self, url: str, payload: dict[str, Any]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="slack-requests", daemon=True)
            self._thread.start()
        self._queue.put((url, payload))

    def settle(self) -> None:
        """Wait until everything was sent."""
        self._queue.join()

    def _run(self) -> None:
        while True:
            url, payload = self._queue.get()
            for again, wait in enumerate((0.0, *self._retries)):
                time.sleep(wait)
                answer = self._post(url, payload, again)
                self.statuses.append(0 if answer is None else answer.status_code)
                if answer is not None and answer.is_success:
                    break
            self._queue.task_done()

    def _post(self, url: str, payload: dict[str, Any], again: int) -> httpx.Response | None:
        body, stamp = msgspec.json.encode(payload), str(int(time.time()))
        signature = SignatureVerifier(self._secret).generate_signature(timestamp=stamp, body=body)
        headers = {
            "Content-Type": "application/json",
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": signature or "",
        }
        if again:
            headers |= {"X-Slack-Retry-Num": str(again), "X-Slack-Retry-Reason": "http_error"}
        try:
            with http_clients.own(timeout=PATIENCE_SECONDS) as http:
                return http.post(url, content=body, headers=headers)
        except httpx.HTTPError:
            return None
