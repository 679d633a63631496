"""URLs of a book's pages, as built by Docusaurus."""

import pytest

from resources.sources.books import file_url, is_partial, page_url


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("intro.md", "https://book.example/docs/intro"),
        ("01-start/02-install.mdx", "https://book.example/docs/start/install"),
        ("003 - setting up.md", "https://book.example/docs/setting%20up"),
        ("guides/index.md", "https://book.example/docs/guides/"),
        ("guides/README.md", "https://book.example/docs/guides/"),
        ("02-guides/guides.md", "https://book.example/docs/guides/"),
        ("index.md", "https://book.example/docs/"),
        ("news/2021-11-release.md", "https://book.example/docs/news/2021-11-release"),
        ("7.0-notes.md", "https://book.example/docs/7.0-notes"),
        ("1-.md", "https://book.example/docs/1-"),
        ("img/01-plan.png", "https://book.example/docs/img/01-plan.png"),
        ("what?/a#b.md", "https://book.example/docs/what%3F/a%23b"),
    ],
)
def test_a_page(path: str, url: str) -> None:
    assert page_url("https://book.example/docs/", path) == url


def test_a_file_keeps_its_path() -> None:
    assert file_url("https://files.example", "a b/01-c.md") == "https://files.example/a%20b/01-c.md"


@pytest.mark.parametrize(
    ("path", "partial"),
    [("_part.md", True), ("_parts/a.md", True), ("a/_category_.json", True), ("a_b/c_d.md", False)],
)
def test_partials(path: str, partial: bool) -> None:
    assert is_partial(path) is partial
