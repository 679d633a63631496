"""Sources as installed packages declare them: what is found, in which order, and what a faulty package does to the others."""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from orchestration.supervision.environment import service_environment
from resources import sources
from resources.core.domain import SourceName, document_id
from resources.core.errors import ConfigurationError
from resources.core.ports import Memory, Source
from resources.settings import Settings
from resources.sources.discovery import GROUP, discover
from resources.sources.spec import Consent, ConsentGrant, SourceSpec


class WikiSettings(BaseSettings):
    """Settings of the connector below."""

    model_config = SettingsConfigDict(env_prefix="CONCORDANCE_WIKI_", env_file=".env", frozen=True, extra="ignore")

    url: str | None = None
    token: SecretStr | None = None
    depth: int = 3


def open_wiki(settings: Settings, memory: Memory) -> Source:
    raise NotImplementedError


def wiki(**fields: object) -> SourceSpec:
    given = {"settings": WikiSettings, "needs": ("url",), "credentials": ("url", "token"), **fields}
    return SourceSpec(name=SourceName("wiki"), label="Wiki", open=open_wiki, help="Set CONCORDANCE_WIKI_URL.", **given)  # type: ignore[arg-type]


WIKI = wiki()
NOT_A_SPEC = "wiki"


class Package(Distribution):
    """An installed package of somebody else."""

    def __init__(self, name: str) -> None:
        self._metadata_name = name

    @property
    def name(self) -> str:
        return self._metadata_name

    def read_text(self, filename: str) -> str | None:  # noqa: ARG002 - it has no files
        return None

    def locate_file(self, path: object) -> Path:  # type: ignore[override]  # noqa: ARG002 - as above
        return Path()


def entry(name: str, value: str, package: str) -> EntryPoint:
    made = EntryPoint(name, value, GROUP)
    made._for(Package(package))  # type: ignore[attr-defined]
    return made


OURS = [entry(spec.name.value, f"{spec.open.__module__}:SPEC", "concordance") for spec in sources.specs()]
HERE = "tests.unit.test_source_registry"
OTHER = entry("wiki", f"{HERE}:WIKI", "acme-wiki")


def test_our_own_are_declared_and_come_first() -> None:
    assert list(sources.names()) == ["google_drive", "slack", "upload", "files", "push"]
    assert sources.faults() == ()
    found = discover([OTHER, *reversed(OURS)])
    assert list(found.specs) == [*sources.names(), "wiki"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:SPEC", "ModuleNotFoundError: No module named 'no_such_package'"),
        (f"{HERE}:NOT_A_SPEC", f"TypeError: {HERE}:NOT_A_SPEC is not a SourceSpec"),
        ("resources.sources.slack:SPEC", "ValueError: resources.sources.slack:SPEC is named 'slack'"),
    ],
)
def test_a_broken_package_is_named_and_the_others_work(value: str, reason: str) -> None:
    found = discover([*OURS, entry("wiki", value, "acme-wiki")])
    assert list(found.specs) == list(sources.names())
    assert [str(fault) for fault in found.faults] == [
        f"The source 'wiki' of the package acme-wiki is left out: {reason}"
    ]


def test_a_name_that_two_packages_declare_is_refused() -> None:
    found = discover(
        [*OURS, OTHER, entry("wiki", f"{HERE}:WIKI", "other-wiki"), entry("slack", f"{HERE}:WIKI", "fake")]
    )
    assert list(found.specs) == list(sources.names()), "ours are ours, and what two others claim is nobody's"
    assert [(fault.source, fault.package) for fault in found.faults] == [
        ("slack", "fake"),
        ("wiki", "acme-wiki"),
        ("wiki", "other-wiki"),
    ]


@pytest.mark.parametrize("fields", [{"needs": ("adress",)}, {"credentials": ("tokne",)}, {"settings": Settings}])
def test_a_declaration_names_settings_that_exist(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="has no field"):
        wiki(**fields)


def test_settings_of_a_connector_have_its_name_for_a_prefix() -> None:
    with pytest.raises(ValueError, match="CONCORDANCE_OTHER_"):
        SourceSpec(name=SourceName("other"), label="Other", open=open_wiki, help="", settings=WikiSettings)


def test_a_source_is_set_up_by_its_own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    assert not WIKI.configured(settings)
    before = WIKI.fingerprint(settings)
    (tmp_path / ".env").write_text("CONCORDANCE_WIKI_URL=http://wiki.example\n")
    assert WIKI.configured(settings)
    monkeypatch.setenv("CONCORDANCE_WIKI_TOKEN", "one")
    assert WIKI.fingerprint(settings) != before
    monkeypatch.setenv("CONCORDANCE_WIKI_DEPTH", "deep")
    assert WIKI.configured(settings), "wrong settings are reported by the sync, not passed over"
    with pytest.raises(ConfigurationError, match="CONCORDANCE_WIKI_DEPTH"):
        WIKI.own_settings(settings)


def test_only_services_that_run_connectors_get_the_secrets_of_a_connector(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("orchestration.supervision.environment.specs", lambda: [*sources.specs(), WIKI])
    monkeypatch.setenv("CONCORDANCE_WIKI_URL", "http://wiki.example")
    monkeypatch.setenv("CONCORDANCE_WIKI_TOKEN", "secret")
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    pipeline, serving = service_environment(settings, "run-workers"), service_environment(settings, "serving")
    assert pipeline["CONCORDANCE_WIKI_TOKEN"] == "secret"
    assert "CONCORDANCE_WIKI_TOKEN" not in serving
    for variable in [*serving, "CONCORDANCE_WIKI_URL"]:
        monkeypatch.setenv(variable, serving[variable])
    monkeypatch.delenv("CONCORDANCE_WIKI_TOKEN")
    assert WIKI.configured(settings)
    withheld = WIKI.own_settings(settings)
    assert isinstance(withheld, WikiSettings)
    assert withheld.token is not None
    with pytest.raises(ConfigurationError, match="CONCORDANCE_WIKI_TOKEN"):
        withheld.token.get_secret_value()


def test_the_service_gets_the_secret_of_an_oauth_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consent = Consent(
        provider="wiki",
        label="Wiki",
        client=("url", "token"),
        scopes=(),
        endpoints=lambda _: ("", ""),
        granted=lambda _, tokens: ConsentGrant(str(tokens), "", []),
    )
    monkeypatch.setattr(
        "orchestration.supervision.environment.specs", lambda: [*sources.specs(), wiki(connect=consent)]
    )
    monkeypatch.setenv("CONCORDANCE_WIKI_TOKEN", "secret")
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    assert service_environment(settings, "serving")["CONCORDANCE_WIKI_TOKEN"] == "secret"
    assert "CONCORDANCE_WIKI_TOKEN" not in service_environment(settings, "slack-events")


def test_names_are_checked_and_other_names_are_understood() -> None:
    assert SourceName("wiki") is SourceName("wiki")
    assert document_id(SourceName("wiki"), "a") != document_id(SourceName.FILES, "a")
    for wrong in ("Wiki", "wi-ki", "", "w" * 41, "1wiki"):
        with pytest.raises(ValueError, match="is not a valid SourceName"):
            SourceName(wrong)
    assert [sources.parse(text) for text in ("google-drive", "Uploads", "files")] == ["google_drive", "upload", "files"]
    with pytest.raises(ValueError, match=r"Known sources: google_drive, slack, upload, files, push\."):
        sources.parse("wiki")
    assert sources.label("wiki") == "wiki", "its package is gone"
