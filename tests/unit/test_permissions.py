"""Principals: one spelling each, nothing guessed, no access widened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.errors import InvalidRequestError
from resources.core.permissions import granted, named_group, normalize, principals_of


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("Ada@Acme.com", "ada@acme.com"),
        ("  ada+x@acme.co.uk ", "ada+x@acme.co.uk"),
        ("group:Eng@Acme.com", "group:eng@acme.com"),
        ("GROUP:eng@acme.com", "group:eng@acme.com"),
        ("domain:Acme.COM", "domain:acme.com"),
        ("domain:@acme.com", "domain:acme.com"),
        ("slack:T012ab", "slack:T012AB"),
        ("Public", "public"),
        ("jo\u0308rg@acme.com", "j\u00f6rg@acme.com"),
    ],
)
def test_each_form_has_one_spelling(written: str, normal: str) -> None:
    assert normalize([written, normal]) == (normal,)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "everyone",
        "@acme.com",
        "ada@",
        "ada@x@acme.com",
        "ada @acme.com",
        "a,b@acme.com",
        "a\ud83d@acme.com",
        "group:eng",
        "group:",
        "group:domain:acme.com",
        "domain:",
        "domain:ada@acme.com",
        "slack:T 1",
        "user:ada@acme.com",
        "public:x",
        "ada@acme.com\nbob@acme.com",
        "mar\u212a@acme.com",
        "e\u0301mar\u212a@acme.com",
        "a" * 400 + "@acme.com",
    ],
)
def test_what_is_not_understood_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidRequestError):
        normalize(["ada@acme.com", wrong])


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("Site Leads (EMEA)", "group:site-leads-emea@acme.com"),
        ("Caf\u00e9", "group:caf\u00e9@acme.com"),
        ("Cafe\u0301", "group:caf\u00e9@acme.com"),
        ("Cafe", "group:cafe@acme.com"),
        ("\u00dcberwachung", "group:\u00fcberwachung@acme.com"),
        ("U\u0308berwachung", "group:\u00fcberwachung@acme.com"),
        ("\u0915\u093f", "group:\u0915\u093f@acme.com"),  # the vowel sign is a mark, which no letter includes
        ("\u0915\u0940", "group:\u0915\u0940@acme.com"),
        ("\u0e01\u0e34\u0e19 A", "group:\u0e01\u0e34\u0e19-a@acme.com"),
        ("\u062e\u0627\u0646\u0647\u200c\u0647\u0627", "group:\u062e\u0627\u0646\u0647\u0647\u0627@acme.com"),
        ("Sales\u200b \u2060Team\ufeff", "group:sales-team@acme.com"),
        ("sales\u200b@acme.com", "group:sales@acme.com"),
        ("\u200d", None),
        ("Mar\u212a", None),
    ],
)
def test_a_named_group_has_one_spelling_and_that_of_no_other(name: str, group: str | None) -> None:
    if group is None:
        with pytest.raises(InvalidRequestError):
            named_group(name, "acme.com")
    else:
        assert named_group(name, "acme.com") == group


@pytest.mark.parametrize("name", ["\u062e\u0627\u0646\u0647\u200c\u0647\u0627", "caf\u200de\u0301"])
def test_a_group_is_the_same_with_and_without_invisible_characters(name: str) -> None:
    """A document's reader is typed, a provider's group is named."""
    (typed,) = normalize([f"Group: {name}@acme.com"])
    assert typed == named_group(name, "acme.com")
    assert typed in principals_of("ada@acme.com", [f"{name}@acme.com"])


def test_an_email_with_an_invisible_character_is_no_other_persons() -> None:
    assert normalize(["ada\u200b@acme.com"]) != normalize(["ada@acme.com"])


def test_a_refusal_names_the_forms() -> None:
    with pytest.raises(InvalidRequestError, match="group:NAME@DOMAIN, domain:NAME, slack:TEAM or public"):
        normalize(["everyone"])


def test_no_permissions_means_no_one() -> None:
    assert normalize([]) == ()


def test_a_caller_is_email_domain_groups_workspaces_and_public() -> None:
    found = principals_of("Ada@Acme.com", ["eng@acme.com", "group:Ops@acme.com"], ["T1", "slack:T2"])
    assert found == {
        "ada@acme.com",
        "domain:acme.com",
        "public",
        "group:eng@acme.com",
        "group:ops@acme.com",
        "slack:T1",
        "slack:T2",
    }


@pytest.mark.parametrize("group", ["domain:rival.com", "slack:T9", "public", "eng", ""])
def test_a_group_never_becomes_another_kind_of_principal(group: str) -> None:
    with pytest.raises(InvalidRequestError):
        principals_of("ada@acme.com", [group])


def test_a_group_named_like_an_email_is_not_that_person() -> None:
    assert "boss@acme.com" not in principals_of("ada@acme.com", ["boss@acme.com"])


@given(st.text(max_size=30))
def test_normal_form_is_stable_or_refused(text: str) -> None:
    try:
        once = normalize([text])
    except InvalidRequestError:
        return
    assert normalize(once) == once


@pytest.mark.parametrize(
    ("tags", "owner", "readers"),
    [
        ({}, "ada@acme.com", ("public",)),
        ({"lifecycle": "approved"}, "ada@acme.com", ("public",)),
        ({"lifecycle": "Draft"}, "ada@acme.com", ("ada@acme.com",)),
        ({"lifecycle": "draft"}, None, ()),
    ],
)
def test_a_draft_is_its_owners_alone(tags: dict[str, str], owner: str | None, readers: tuple[str, ...]) -> None:
    assert granted(("public",), owner, tags) == readers
