"""Measure syncs of Drive and Slack simulators: 1,000 of 5,000 files changed, 200 people's My Drives, 10,000 new messages.

Prints for each sync the seconds (the simulator's processor time and the stage `embedded` separately), calls by method, and for Slack
how long the calls would take at the published rate limits. `python -m bench.sync [--only company]`.
The last line is JSON. Vectors are synthetic, because embedding is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from assets import pipeline
from assets.index.agreement import changed
from bench.ingest import Seeded, without_embedding
from bench.installation import running_set, temporary_folder
from resources.core.domain import STAGES, SourceName
from resources.logging import configure
from resources.settings import Settings, load
from resources.syncs.syncing import open_sync
from simulators import serve
from simulators.drive import DriveApp, SimulatedDrive
from simulators.slack import SlackApp, Workspace
from simulators.slack.rates import PER_MINUTE
from tests.fixtures.drive import service_account_file

CHANGED = 1000
FOLDERS = 100
CHANNELS = 10
WORDS = 200
SEED = 11
DAY = 24 * 3600
PER_USER = 20


def main() -> None:
    """Run the benchmark and print the figures."""
    configure("error", "bench")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--only", choices=("drive", "company", "slack"))
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"files": arguments.files, "changed": CHANGED, "messages": arguments.messages}
    with temporary_folder() as folder, running_set(folder, LOG_LEVEL="error"):
        parts: dict[str, Callable[[], None]] = {
            "drive": lambda: _drive(arguments.files, figures),
            "company": lambda: _company(arguments.users, folder, figures),
            "slack": lambda: _slack(arguments.messages, figures),
        }
        for name, part in parts.items():
            if arguments.only in {None, name}:
                part()
    print(json.dumps(figures))


def _sync(settings: Settings, source: SourceName, calls: Counter[str], name: str, figures: dict[str, Any]) -> None:
    """Sync once in this process and record its figures."""
    before, server = Counter(calls), _server_seconds()
    seconds: dict[str, float] = {}
    with without_embedding(), open_sync(settings, source, requested_by="bench") as job:
        # for the very first sync, which has no collection to take the model from
        job.stores.__dict__["embedder"] = Seeded()
        done: dict[str, Any] = {}
        for stage in STAGES:
            started = time.perf_counter()
            done[stage] = job.run(stage, partial(pipeline.WORK[stage], job)).counts
            seconds[stage] = round(time.perf_counter() - started, 2)
        if not (found := changed(job.stores, 0)).agrees:
            sys.exit(f"The stores do not agree: {found}")
    simulator = _server_seconds() - server
    made = calls - before
    figures[name] = {
        "seconds": round(sum(seconds.values()), 2),
        "simulator_s": round(simulator, 2),
        "net_s": round(sum(seconds.values()) - simulator - seconds["embedded"], 2),
        "stage_seconds": seconds,
        "documents": job.counts.synced,
        "fetched": done["raw"]["fetched"],
        "chunks": done["indexed"]["points"],
        "calls": dict(sorted(made.items())),
        "calls_in_all": made.total(),
    }
    if source is SourceName.SLACK:
        paced = {method: number / PER_MINUTE[method] for method, number in made.items() if method in PER_MINUTE}
        figures[name]["minutes_at_published_rates"] = round(max(paced.values(), default=0), 2)
    print(f"{name}: {json.dumps(figures[name])}", file=sys.stderr, flush=True)


def _server_seconds() -> float:
    """Return the processor time of the simulator's thread so far."""
    for thread in threading.enumerate():
        if thread.name == "simulator" and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return 0.0


def _vocabulary() -> list[str]:
    texts = Path(__file__).resolve().parents[1] / "examples"
    return sorted({word for file in texts.rglob("*.md") for word in re.findall(r"[a-z]{2,}", file.read_text().lower())})


def _drive(files: int, figures: dict[str, Any]) -> None:
    spell, vocabulary = random.Random(SEED), _vocabulary()

    def text() -> str:
        return " ".join(spell.choices(vocabulary, k=WORDS)) + ".\n"

    drive = SimulatedDrive()
    shared = drive.shared_drive("Team", {"group:team@acme.example": "reader"})
    folders = [drive.folder(f"Folder {n}", drive.my_drive if n % 2 else shared) for n in range(FOLDERS)]
    ids = [drive.file(f"file-{n}.txt", folders[n % FOLDERS], text()) for n in range(files)]
    with serve(DriveApp(drive)) as url:
        settings = _settings(CONCORDANCE_DRIVE_API_URL=url, CONCORDANCE_DRIVE_TOKEN=drive.token)
        sync = _bound(settings, SourceName.GOOGLE_DRIVE, drive.calls, figures)
        sync("drive_first")
        for file in spell.sample(ids, CHANGED):
            drive.edit(file, text())
        sync("drive_changed")
        sync("drive_nothing")
        drive.share(folders[1], "user:ada@acme.example")
        sync("drive_folder_shared")


def _company(users: int, folder: Path, figures: dict[str, Any]) -> None:
    """Sync every user's My Drive by delegation, then nothing, then one changed file, then the drive of someone who left."""
    spell, vocabulary = random.Random(SEED), _vocabulary()
    drive = SimulatedDrive(account="admin@acme.example")
    drive.user(drive.account)
    people = [f"user{number}@acme.example" for number in range(users)]
    for email in people:
        top = drive.user(email)
        below = drive.folder("Work", top)
        for number in range(PER_USER):
            text = " ".join(spell.choices(vocabulary, k=WORDS)) + ".\n"
            changed = drive.file(f"{email} {number}.txt", below if number % 2 else top, text)
    with serve(DriveApp(drive)) as url:
        settings = _settings(
            CONCORDANCE_DRIVE_API_URL=url,
            CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE=str(service_account_file(folder, url)),
            CONCORDANCE_GOOGLE_SUBJECT=drive.account,
            CONCORDANCE_DRIVE__USERS="*",
            CONCORDANCE_GOOGLE_DIRECTORY_API_URL=url,
        ).model_copy(update={"drive_token": None})
        sync = _bound(settings, SourceName.GOOGLE_DRIVE, drive.calls, figures)
        sync("company_first")
        sync("company_nothing")
        drive.edit(changed, "changed.\n")
        sync("company_changed")
        drive.suspend(people[0])
        sync("company_left")


def _slack(messages: int, figures: dict[str, Any]) -> None:
    spell, vocabulary = random.Random(SEED), _vocabulary()
    now = [1_750_000_000.0]
    slack = Workspace(clock=lambda: now[0])
    people = [slack.user(f"Person {n}", f"p{n}@acme.example") for n in range(20)]
    channels = [slack.channel(f"channel-{n}", people, private=n % 2 == 0) for n in range(CHANNELS)]

    def post(number: int, days: int) -> None:
        """Post messages; a fifth of them are threads with four replies."""
        step = days * DAY / number * CHANNELS
        for at in range(number):
            now[0] += step / CHANNELS
            channel, text = channels[at % CHANNELS], " ".join(spell.choices(vocabulary, k=20))
            root = threads.get(channel) if at // CHANNELS % 5 else None
            posted = slack.post(channel, spell.choice(people), text, thread=root)
            if root is None:
                threads[channel] = posted if at // CHANNELS % 25 == 0 else None

    threads: dict[str, str | None] = {}
    post(2000, 60)
    with serve(SlackApp(slack)) as url:
        settings = _settings(CONCORDANCE_SLACK_API_URL=f"{url}/api", CONCORDANCE_SLACK_BOT_TOKEN=slack.token)
        sync = _bound(settings, SourceName.SLACK, slack.calls, figures)
        sync("slack_first")
        post(messages, 2)
        sync("slack_changed")
        sync("slack_nothing")


def _settings(**variables: str) -> Settings:
    os.environ.update(variables)
    return load(_env_file=None)


def _bound(
    settings: Settings, source: SourceName, calls: Counter[str], figures: dict[str, Any]
) -> Callable[[str], None]:
    return lambda name: _sync(settings, source, calls, name, figures)


if __name__ == "__main__":
    main()
