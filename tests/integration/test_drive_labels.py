"""Labels on files of a simulated Drive: which leave the index, and which stay away from outside language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resources.core.errors import ConcordanceError
from resources.settings import Settings
from tests.fixtures.drive import DriveSite
from tests.fixtures.drive_mirror import Mirror

SECRET, INTERNAL, OTHER = "secretLabel", "internalLabel", "otherLabel"
RULES = {SECRET: "exclude", INTERNAL: "no_model"}


def mirror(site: DriveSite, home: Path, labels: dict[str, str], **settings: Any) -> Mirror:
    given = {"drive_token": site.drive.token, "retry_seconds": (0.0, 0.0), "drive_labels": labels, **settings}
    return Mirror(Settings(_env_file=None, home=home, drive_api_url=site.url, **given))


def tags(kept: Mirror) -> dict[str, str | None]:
    return {one: item.tags.get("language_model") for one, item in kept.items().items()}


def test_labels_take_effect_when_a_root_is_listed(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    team = drive.shared_drive("Team", {})
    plain, secret, internal = (
        drive.file(f"{n}.txt", place, f"text {n}") for n, place in enumerate((drive.my_drive, team, team))
    )
    drive.label(plain, OTHER)
    drive.label(secret, SECRET)
    drive.label(internal, INTERNAL)
    kept = mirror(drive_site, tmp_path, RULES)
    kept.sync()
    assert tags(kept) == {plain: None, internal: "local"}
    assert kept.reasons().keys() == {secret}
    assert SECRET in kept.reasons()[secret]
    assert "CONCORDANCE_DRIVE__LABELS" in kept.reasons()[secret]


def test_labels_keep_answers_from_being_shared(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    one, both = (drive.file(name, drive.my_drive, "a plan") for name in ("one.txt", "both.txt"))
    for file, label in ((one, SECRET), (both, SECRET), (both, INTERNAL)):
        drive.label(file, label)
    kept = mirror(drive_site, tmp_path, {SECRET: "no_share", INTERNAL: "no_model"})
    kept.sync()
    assert kept.items()[one].tags == {"sharing": "private", "answer_sharing": "nobody"}
    assert kept.items()[both].tags == {"sharing": "private", "answer_sharing": "nobody", "language_model": "local"}


def test_a_label_that_is_put_on_later_takes_effect_at_the_next_sync(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    file = drive.file("plan.txt", drive.my_drive, "a plan")
    kept = mirror(drive_site, tmp_path, RULES)
    kept.sync()
    drive.label(file, INTERNAL)
    kept.sync()
    assert tags(kept) == {file: "local"}
    drive.unlabel(file, INTERNAL)
    kept.sync()
    assert tags(kept) == {file: None}
    assert kept.versions == {file: 1}, "the file was downloaded once"
    drive.label(file, SECRET)
    kept.sync()
    assert kept.items() == {}
    assert file in kept.reasons()
    drive.unlabel(file, SECRET)
    kept.sync()
    assert tags(kept) == {file: None}


def test_a_change_of_the_setting_takes_effect_at_the_next_sync(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    file = drive.file("plan.txt", drive.my_drive, "a plan")
    drive.label(file, SECRET)
    kept = mirror(drive_site, tmp_path, {})
    kept.sync()
    assert tags(kept) == {file: None}
    kept.settings = mirror(drive_site, tmp_path, {SECRET: "no_model"}).settings
    kept.sync()
    assert tags(kept) == {file: "local"}
    kept.settings = mirror(drive_site, tmp_path, RULES).settings
    kept.sync()
    assert kept.items() == {}


@pytest.mark.parametrize(("rules", "indexed"), [(RULES, None), ({INTERNAL: "no_model"}, "local"), ({}, "free")])
def test_labels_that_cannot_be_read_count_as_carried(
    rules: dict[str, str], indexed: str | None, drive_site: DriveSite, tmp_path: Path
) -> None:
    drive = drive_site.drive
    file = drive.file("plan.txt", drive.my_drive, "a plan")
    kept = mirror(drive_site, tmp_path, rules)
    kept.sync()
    drive.hide_labels(file)
    kept.sync()
    if indexed is None:
        assert "permission to read them" in kept.reasons()[file]
    else:
        assert tags(kept) == {file: None if indexed == "free" else indexed}


def test_a_failed_request_indexes_nothing_that_a_label_excludes(drive_site: DriveSite, tmp_path: Path) -> None:
    drive = drive_site.drive
    secret = drive.file("secret.txt", drive.my_drive, "a secret")
    drive.label(secret, SECRET)
    kept = mirror(drive_site, tmp_path, RULES)
    drive.faults.random(7, 1.0)
    with pytest.raises(ConcordanceError):
        kept.sync()
    drive.faults.clear()
    assert kept.items() == {}
    kept.sync()
    assert kept.items() == {}
    assert secret in kept.reasons()
