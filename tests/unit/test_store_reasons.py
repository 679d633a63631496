"""What people are told when the object store of the lake fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resources.core.errors import ServiceUnavailableError
from resources.stores.lake import Lake
from tests.fixtures import loopback


class Refusing(loopback.Handler):
    """Answers everything as a store does whose bucket does not exist."""

    def do_GET(self) -> None:
        self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")


@pytest.fixture
def address() -> Iterator[str]:
    with loopback.serving(Refusing) as url:
        yield url


def test_the_cause_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(ServiceUnavailableError, match=r"CONCORDANCE_LAKE_URL.*404 Not Found.*NoSuchBucket") as refused:
        Lake("s3://bucket/lake").open("parsed")
    assert str(refused.value).isprintable()
