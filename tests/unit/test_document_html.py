"""The document page shows headings, lists and tables as such, marks exactly the cited text, and escapes everything."""

import re
from html import unescape

import pytest

from assets.stages.parse import parse
from serving.documents.html import headings, render

MARKDOWN = b"""# Travel rules

Book trains <b>first</b> & early.

## By plane

- over four hours
  - with a manager's leave
- never on Mondays

1. ask
2. book

| City | Days |
| --- | --- |
| Rome | 30 |
| Oslo | 12 |

```
if late:
    call()
```
"""


def page(data: bytes, quoted: str = "", mime_type: str = "text/markdown") -> str:
    document = parse(data, mime_type, title="a")
    start = document.text.index(quoted)
    return render(
        document.text, headings([(*block.section_path,) for block in document.blocks]), start, start + len(quoted)
    )


def test_each_kind_of_block() -> None:
    assert page(MARKDOWN) == (
        "<h2>Travel rules</h2>"
        "<p>Book trains first &amp; early.</p>"
        "<h3>By plane</h3>"
        '<ul dir=auto><li class="depth-0">over four hours</li><li class="depth-1">with a manager&#x27;s leave</li>'
        '<li class="depth-0">never on Mondays</li></ul>'
        '<ul dir=auto><li class="depth-0 numbered">1. ask</li><li class="depth-0 numbered">2. book</li></ul>'
        "<div class=wide dir=auto tabindex=0 role=group aria-label=Table><table>"
        "<tr><th>City</th><th>Days</th></tr><tr><td>Rome</td><td>30</td></tr>"
        "<tr><td>Oslo</td><td>12</td></tr></table></div>"
        "<pre><code>if late:\n    call()</code></pre>"
    )


@pytest.mark.parametrize("quoted", ["trains first", "early.\n\nBy plane\n\n- over four", "Rome | 30\nOslo", "2. book"])
def test_what_is_marked_is_the_cited_text(quoted: str) -> None:
    html = page(MARKDOWN, quoted)
    marked = "".join(re.findall(r"<mark[^>]*>(.*?)</mark>", html, re.DOTALL))
    assert html.count('id="place"') == 1

    def letters(text: str) -> str:
        return re.sub(r"[\s|]|(?<!\d)- ", "", unescape(text))

    assert letters(marked) == letters(quoted)


def test_lines_that_a_page_ended_are_joined_and_others_kept() -> None:
    full = "The gauge hangs below a bridge and measures the"
    assert render(f"Power\n{full}\n{full}\nwater.\nPart", {}) == f"<p>Power<br>{full} {full} water.<br>Part</p>"
    assert render(f"{full}\n{full}", {}, wrapped=False) == f"<p>{full}<br>{full}</p>"


def test_the_repeated_head_of_a_table_is_shown_where_it_is_cited() -> None:
    text = "City | Days\nRome | 30\n\nCity | Days\nOslo | 12"
    start = text.rindex("City")
    whole = render(text, {}, start, len(text))
    assert '<tr><th><mark id="place">City</mark></th><th><mark>Days</mark></th></tr>' in whole
    quote = (start, start + len("City"))
    quoted = render(text, {}, start, len(text), quote=quote)
    assert '<mark class="quote" id="place">City</mark>' in quoted
    assert render(text, {}, 0, text.index("Rome")).count("City") == 1


def test_a_table_in_parts_is_one_table() -> None:
    assert render("City | Days\n\nRome | 30\n\nCity | Days\n\nOslo | 12", {}).count("<tr>") == 3
    assert render("City | Days\nRome | 30\n\nCity | Days\nOslo | 12", {}).count("<table>") == 1
    assert render("City | Days\nRome | 30\n\nName | Age\nAna | 12", {}).count("<table>") == 2


@pytest.mark.parametrize(
    "hostile", ["<script>x()</script>", "- <img src=x onerror=x()>", '<a> | "b"', '  <i class="x">']
)
def test_nothing_in_a_document_becomes_markup(hostile: str) -> None:
    html = render(f"{hostile}\n\n{hostile}", {hostile: 1}, 3, 9)
    tags = set(re.findall(r"<(/?[a-z0-9]+)", html))
    assert tags <= {
        f"{end}{tag}"
        for end in ("", "/")
        for tag in ("h2", "p", "ul", "li", "pre", "code", "div", "table", "tr", "td", "mark")
    }
    assert re.search(r"<\w+[^>]* on\w+=", html) is None


def test_no_level_of_headings_is_left_out_where_a_part_begins_below_its_chapter() -> None:
    known = {"House": 1, "Lamps": 2, "Oil": 3, "Wicks": 3, "Masts": 2, "Ships": 1, "Sails": 3, "Ropes": 3}
    html = render("Lamps\n\nText.\n\nOil\n\nText.\n\nWicks\n\nMasts\n\nShips\n\nSails\n\nRopes", known)
    levels = [
        ("h2", "Lamps"),
        ("h3", "Oil"),
        ("h3", "Wicks"),
        ("h2", "Masts"),
        ("h2", "Ships"),
        ("h3", "Sails"),
        ("h3", "Ropes"),
    ]
    assert re.findall(r"<(h\d)>(\w+)", html) == levels
