"""Forecasts: nothing before a day of samples, nothing without growth, and the days that are left after that."""

from __future__ import annotations

import json

import pytest

from orchestration.cli import run
from resources.stores.postgres import session
from resources.stores.room import rooms
from serving.http.growth import KEPT_DAYS, samples
from sql.growth import Forecast, Growth
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Running, Site
from tests.fixtures.upkeep import as_environment
from tests.fixtures.waiting import until

ANN = "ann@acme.com"
DISK = "north:/var/lib/concordance"


def sampled(dsn: str, *used: tuple[float, float], what: str = "disk", place: str = DISK, most: float = 100) -> None:
    """Store samples: how many hours ago, and how much was used."""
    with session(dsn, autocommit=True) as connection:
        for hours, amount in used:
            connection.execute(
                "INSERT INTO capacity_samples (what, place, sampled_at, used, most)"
                " VALUES (%s, %s, now() - %s * interval '1 hour', %s, %s)",
                [what, place, hours, amount, most],
            )


def forecasts(dsn: str) -> dict[str, float]:
    with session(dsn) as connection:
        return {one.what: one.days for one in Growth(connection).forecasts()}


def test_nothing_is_forecast_before_a_day_of_samples(installation: Installation) -> None:
    dsn = installation.settings.postgres_dsn
    assert forecasts(dsn) == {}
    sampled(dsn, (0, 40))
    assert forecasts(dsn) == {}
    sampled(dsn, (23.9, 30))
    assert forecasts(dsn) == {}
    sampled(dsn, (24.1, 30))
    assert set(forecasts(dsn)) == {"disk"}


def test_the_days_follow_from_the_growth_of_the_last_week(installation: Installation) -> None:
    dsn = installation.settings.postgres_dsn
    sampled(dsn, (9 * 24, 0), (72, 10), (48, 20), (24, 30), (0, 40))
    assert forecasts(dsn)["disk"] == pytest.approx(6)
    sampled(dsn, (48, 3_000), (24, 4_000), (0, 5_000), what="index", place="", most=20_000)
    assert forecasts(dsn)["index"] == pytest.approx(15)


@pytest.mark.parametrize(
    "used",
    [
        ((48, 40), (24, 40), (0, 40)),
        ((48, 40), (24, 30), (0, 20)),
        ((72, 10), (48, 20), (25, 30)),
    ],
    ids=["still", "shrinks", "the latest sample is old"],
)
def test_nothing_is_forecast_without_growth(installation: Installation, used: tuple[tuple[float, float], ...]) -> None:
    dsn = installation.settings.postgres_dsn
    sampled(dsn, *used)
    assert forecasts(dsn) == {}


def test_what_is_full_is_full_today(installation: Installation) -> None:
    dsn = installation.settings.postgres_dsn
    sampled(dsn, (48, 90), (0, 110))
    assert forecasts(dsn) == {"disk": 0}


def test_samples_are_stored_once_in_half_an_hour_and_kept_for_days(installation: Installation) -> None:
    settings = installation.settings.model_copy(update={"max_vectors": 500})
    rows = [one._asdict() for one in samples(settings, 20)]
    assert [(one["used"], one["most"]) for one in rows if one["what"] == "index"] == [(20, 500)]
    assert len(rows) == len(rooms(settings)) + 1
    assert [one for one in samples(settings, None) if one.what == "index"] == []
    with session(settings.postgres_dsn, autocommit=True) as connection:
        statements = Growth(connection)
        assert statements.record(samples=rows) == len(rows)
        assert statements.record(samples=rows) == 0
        connection.execute("UPDATE capacity_samples SET sampled_at = now() - interval '31 minutes'")
        assert statements.record(samples=rows) == len(rows)
        sampled(settings.postgres_dsn, (KEPT_DAYS * 24 - 1, 1), (KEPT_DAYS * 24 + 1, 1))
        assert statements.forget(days=KEPT_DAYS) == 1


@pytest.mark.parametrize(
    ("days", "said"),
    [(12.9, "full in 12 days"), (1.0, "full in 1 day,"), (0.99, "full within a day"), (0, "full within a day")],
)
def test_people_read_whole_days(days: float, said: str) -> None:
    assert said in str(Forecast("disk", DISK, 40, 100, days))
    assert str(Forecast("index", "", 40, 100, days)).startswith("The index will be")


def test_status_says_it(
    installation: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_environment(installation, monkeypatch)
    sampled(installation.settings.postgres_dsn, (48, 28), (24, 34), (0, 40), most=112.1)
    run(["status"])
    assert f"The disk at {DISK} will be full in 12 days" in capsys.readouterr().out
    run(["status", "--json"])
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["forecasts"]
    assert (found["what"], found["place"], int(found["days"])) == ("disk", DISK, 12)


@pytest.mark.usefixtures("quick_figures")
def test_metrics_and_the_page_of_operators_say_it(site: Site, running: Running) -> None:
    sampled(site.settings.postgres_dsn, (48, 28), (24, 34), (0, 40), most=112.1)
    running.wait_for_metrics(f'capacity_full_days{{place="{DISK}",what="disk"}} 12.0')
    said = f"The disk at {DISK} will be full in 12 days"
    assert said in running.request("GET", "/sources", ANN, admin=True).text
    assert said not in running.request("GET", "/sources", ANN).text


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.http.growth.FIRST_SECONDS", 0)


@pytest.mark.usefixtures("at_once")
def test_serving_stores_samples(site: Site, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("running")
    found = until(lambda: site.sql("SELECT what, used < most AS fits FROM capacity_samples"), "samples")
    assert set(found) == {("disk", True)}
