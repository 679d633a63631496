"""People are shown by the names that a directory of the reader's gives them, and otherwise as the source does."""

from __future__ import annotations

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site
from tests.integration.test_search_page import ANN, BOB, SCRIPT, page

MARTA, EVE = "marta@acme.com", "eve@other.com"


def in_directory(site: Site, source: str, **names: str) -> None:
    for who, name in names.items():
        site.sql("INSERT INTO people (source, email, name) VALUES (%s, %s, %s)", source, f"{who}@acme.com", name)


def owners(running: Running, who: str) -> list[str]:
    return sorted(" ".join(one.text(deep=True).split()) for one in page(running, "/?q=kettle", who).css(".person"))


def initials(running: Running) -> set[str | None]:
    return {one.attributes["data-initials"] for one in page(running, "/?q=kettle").css(".person .avatar")}


def test_results_name_people_whom_a_directory_of_the_reader_reports(site: Site, running: Running) -> None:
    for title, owner in (("Tea", MARTA), ("Coffee", "unknown@acme.com"), ("Cake", "Carl, by hand")):
        site.add(title, [f"The kettle is for {title}."], ["public"], owner=owner, author=owner)
    in_directory(site, "scim", ann="Ann Archer", marta="Marta Kowalska")
    assert initials(running) == {"CH", "MK", "U"}
    known = ["Carl, by hand", "Marta Kowalska", "unknown@acme.com"]
    assert owners(running, ANN) == known
    shown = page(running, "/?q=kettle&author=marta@acme.com")
    assert {one.text(): one.attributes["value"] for one in shown.css("select[name=author] option[selected]")} == {
        "Marta Kowalska": MARTA
    }
    for stranger in (BOB, EVE):  # no directory reports both
        assert owners(running, stranger) == ["Carl, by hand", "marta@acme.com", "unknown@acme.com"]
    in_directory(site, "google_directory", bob="Bob Bell")
    assert "marta@acme.com" in owners(running, BOB)
    site.sql("UPDATE people SET active = FALSE WHERE email = %s", MARTA)
    assert owners(running, ANN) == known  # what they wrote remains theirs


def test_a_document_and_an_answer_name_them_too(site: Site, running: Running) -> None:
    in_directory(site, "scim", ann="Ann Archer", bob=SCRIPT, marta="Marta Kowalska")
    doc_id = site.add("Tea", ["The kettle is descaled on Fridays."], [ANN, BOB, "group:tea@acme.com"], owner=ANN)
    shown = page(running, f"/documents/{doc_id}")
    assert shown.css_first(".facts .person").text().endswith("Ann Archer")
    assert [" ".join(one.text().split()) for one in shown.css("#readers li")] == [
        "Ann Archer",
        SCRIPT,
        "Group tea@acme.com",
    ]
    answer = running.request("POST", "/api/ask", ANN, json={"query": "When is the kettle descaled?"}).json()
    running.request("PUT", f"/api/answers/{answer['answer_id']}/share", ANN)
    assert "Ann Archer asked this" in page(running, f"/answers/{answer['answer_id']}", BOB).css_first("main").text()


def test_types_have_icons(site: Site, running: Running) -> None:
    site.add("Tea", ["The kettle."], [ANN], mime_type="application/pdf")
    site.add("Talk", ["The other kettle leaks."], [ANN], source=SourceName.SLACK, mime_type="text/csv")
    icons = [one.attributes["href"] or "" for one in page(running, "/?q=kettle").css(".result h2 use")]
    assert {one.rpartition("#")[2] for one in icons} == {"pdf", "sheet"}
