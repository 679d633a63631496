"""Groups within groups, and the file of groups."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.errors import ConfigurationError
from resources.people import groups_file
from resources.people.membership import EVERYONE, DirectMembers, Membership, flatten

JUNE, JULY = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)


def members(groups: dict[str, DirectMembers], group: str, everyone: tuple[str, ...] = ()) -> list[str]:
    return [one.email for one in flatten(groups, everyone) if one.principal == f"group:{group}"]


def test_nested_groups_are_flattened_and_say_through_which_group() -> None:
    groups = {
        "all": DirectMembers(["zoe"], ["eng", "sales"]),
        "eng": DirectMembers(["ann"], ["leads"]),
        "leads": DirectMembers(["bob", "zoe"]),
        "sales": DirectMembers(["bob"]),
    }
    assert members(groups, "all") == ["ann", "bob", "zoe"]
    assert members(groups, "leads") == ["bob", "zoe"]
    found = {(one.principal, one.email): one.through for one in flatten(groups)}
    assert (found["group:all", "zoe"], found["group:all", "ann"], found["group:eng", "bob"]) == (None, "eng", "leads")


def test_a_cycle_ends_and_an_unknown_group_has_no_members() -> None:
    groups = {
        "a": DirectMembers(["ann"], ["b"]),
        "b": DirectMembers(["bob"], ["c"]),
        "c": DirectMembers(["cat"], ["a", "elsewhere@other.com", "c"]),
    }
    for group in groups:
        assert members(groups, group) == ["ann", "bob", "cat"]


def test_everyone_stands_for_the_accounts_of_the_workspace() -> None:
    groups = {"all": DirectMembers(["guest"], [EVERYONE]), "none": DirectMembers([])}
    assert members(groups, "all", ("ann", "bob")) == ["ann", "bob", "guest"]
    assert members(groups, "none", ("ann", "bob")) == []


def test_a_member_is_as_recent_as_the_oldest_group_on_the_best_way() -> None:
    groups = {
        "top": DirectMembers(["zoe"], ["old", "older", "new"]),
        "old": DirectMembers(["ann", "bob"], ["new"], JULY),
        "older": DirectMembers(["ann", "cat"], [], JUNE),
        "new": DirectMembers(["bob"]),
    }
    found = {(one.principal, one.email): one for one in flatten(groups)}
    assert found["group:top", "zoe"].read_at is None
    assert found["group:top", "ann"] == Membership("ann", "group:top", "old", JULY)
    assert found["group:top", "bob"] == Membership("bob", "group:top", "new", None)
    assert found["group:top", "cat"].read_at == JUNE
    assert found["group:old", "bob"].read_at == JULY
    assert found["group:new", "bob"].read_at is None


NAMES = st.sampled_from("abcde")
GRAPHS = st.dictionaries(NAMES, st.builds(DirectMembers, st.lists(st.sampled_from("xyz")), st.lists(NAMES)))


@given(GRAPHS)
def test_everyone_whom_a_chain_of_groups_reaches_is_a_member_and_nobody_else(groups: dict[str, DirectMembers]) -> None:
    reached = {group: set(one.people) for group, one in groups.items()}
    for _ in groups:
        for group, one in groups.items():
            reached[group] |= {email for child in one.groups for email in reached.get(child, ())}
    assert {(one.principal, one.email) for one in flatten(groups)} == {
        (f"group:{group}", email) for group, emails in reached.items() for email in emails
    }


def test_the_file_names_people_and_groups() -> None:
    text = "group,member\nEng@acme.com,Ann@acme.com\n\neng@acme.com, leads@acme.com\nleads@acme.com,bob@acme.com\n"
    found = groups_file.parse(text + "group:all@acme.com,group:eng@acme.com\n", "groups.csv")
    assert found == {
        "eng@acme.com": DirectMembers(["ann@acme.com"], ("leads@acme.com",)),
        "leads@acme.com": DirectMembers(["bob@acme.com"]),
        "all@acme.com": DirectMembers([], ("eng@acme.com",)),
    }
    assert groups_file.parse("group,member\n", "groups.csv") == {}


def test_a_group_of_the_file_is_the_same_with_and_without_invisible_characters() -> None:
    text = "group,member\nsales\u200bteam@acme.com,ada@acme.com\nall@acme.com,salesteam\u200d@acme.com\n"
    found = groups_file.parse(text, "groups.csv")
    assert found["salesteam@acme.com"].people == ["ada@acme.com"]
    assert (found["all@acme.com"].people, found["all@acme.com"].groups) == ([], ("salesteam@acme.com",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: the first line must be: group,member"),
        ("eng@acme.com,ann@acme.com\n", "line 1: the first line must be"),
        ("group,member\neng@acme.com,ann@acme.com\neng,bob@acme.com\n", "line 3: 'eng' is not an email address"),
        ("group,member\neng@acme.com\n", "line 2: expected two columns, found 1"),
        ("group,member\neng@acme.com,domain:acme.com\n", "line 2: 'domain:acme.com' is not an email address"),
        ("group,member\neng@acme.com,public\n", "line 2: 'public' is not"),
        ('group,member\n"eng@acme.com,ann@acme.com\n', "line 2: it is not CSV"),
    ],
)
def test_a_fault_in_the_file_names_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="CONCORDANCE_GROUPS_FILE") as caught:
        groups_file.parse(text, "groups.csv")
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*groups\.csv: No such file"):
        groups_file.read(tmp_path / "groups.csv")
    (tmp_path / "groups.csv").write_bytes(b"group,member\n\xff\xfe,\n")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        groups_file.read(tmp_path / "groups.csv")
