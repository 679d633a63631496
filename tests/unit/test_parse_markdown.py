"""Markdown of wikis, READMEs and notes."""

from __future__ import annotations

import pytest

from assets.stages.parse import parse


def text(markdown: str) -> str:
    return parse(markdown.encode(), "text/markdown", title="x").text


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("See [the guide][g] and [terms][].\n\n[g]: https://a.example/g\n[terms]: /t 'Terms'\n", "See the guide and terms."),
        ("It cost 4.2<sup>1</sup> million, 30 m<sup>2</sup>.", "It cost 4.2 [1] million, 30 m²."),
        ("| Command | Use |\n|---|---|\n| `a | b` | a pipe |\n", "Command | Use\n`a / b` | a pipe"),
        ("| Command | Use |\n|---|---|\n| `a \\| b` | a pipe |\n", "Command | Use\n`a / b` | a pipe"),
        ("| A | B |\n|---|---|\n| `x` | ` |\n", "A | B\n`x` | `"),
        (
            "<table>\n<tr><th>Data</th><th>Kept</th></tr>\n<tr>\n <td>Calls</td>\n <td>\n\n30 *days*, `a<b`\n\n </td>\n</tr>\n"
            "  <tr><td>Mail</td>\n\n      <td>6 months</td></tr>\n</table>\n\nNext.\n",
            "Data | Kept\nCalls | 30 days, `a<b`\nMail | 6 months\n\nNext.",
        ),
        ("<table><tr><td>Never\n\nclosed\n\n<table><tr><td>A</td></tr></table>\n", "Never\n\nclosed\n\nA"),
        ("<table><tr><th>Bird</th><th>Call</th></tr><tr><td>Heron</td><td>kraak</td></tr></table>\n", "Bird | Call\nHeron | kraak"),
    ],
)  # fmt: skip
def test_markdown_reads_as_it_is_shown(markdown: str, expected: str) -> None:
    assert text(markdown) == expected


@pytest.mark.parametrize(
    "front",
    [
        "---\ntitle: Leave\ndescription: Who may take leave\ntags: [people, leave]\n---\n",
        '---\ntitle: "Leave"\ndescription: >\n  Who may\n  take leave\ntags:\n  - people\n  - "leave"\ndraft: false\n---\n',
        '+++\ntitle = "Leave"\ndescription = "Who may take leave"\ntags = ["people", "leave"]\n+++\n',
    ],
)
def test_description_and_tags_of_the_front_matter_are_text(front: str) -> None:
    document = parse(f"{front}\n# Days\n\nThirty.\n".encode(), "text/markdown", title="x")
    assert document.title == "Leave"
    assert document.text == "Who may take leave\n\nTags: people, leave\n\nDays\n\nThirty."


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("---\n\nOnly here.\n\n---\n\nThe second.\n", "Only here.\n\nThe second."),
        (
            "---\nImportant: call +49 30 1234\nNo pets allowed here.\n---\n\nThanks.\n",
            "Important: call +49 30 1234 No pets allowed here.\n\nThanks.",
        ),
        ("---\n\nNote: only here.\n\n---\n\nThe second.\n", "Note: only here.\n\nThe second."),
        ("---\n# Only\n- here\n\n---\nOne.\n", "Only\n\n- here\n\nOne."),
        ("---\n\ntitle: Leave\ntags: a\n\n---\nOne.\n", "Tags: a\n\nOne."),
        ("---\n---\n\nOne.\n\n---\n\nTwo.\n", "One.\n\nTwo."),
        ("---\n# of the wiki\n\nDate created: 2026\ntags:\n- a\n- b\nlinks: [\n  c,\n]\n---\nOne.\n", "Tags: a, b\n\nOne."),
    ],
)  # fmt: skip
def test_what_stands_between_two_rules_is_text_unless_it_is_front_matter(markdown: str, expected: str) -> None:
    assert text(markdown) == expected


def test_of_lines_that_begin_with_import_or_export_only_those_of_a_program_go() -> None:
    prose = "export API_KEY=abc123\n\nimport duties = 19 % of value\n\nexport default settings as a file"
    program = [
        "import Tabs from '@theme/Tabs';",
        'import {A, B} from "./parts"',
        "import './a.css'",
        "export const meta = {a: 1}",
        "export default function Page() {}",
        "export {A}",
        "export * from './b'",
    ]
    assert text("\n".join(program) + f"\n\n{prose}\n") == prose


@pytest.mark.parametrize(
    "table",
    [
        "| Plan | EUR |\n   |---|---|\n   | Basic | 5 |\n   | *Pro* | 9 |",
        "<table>\n   <tr><th>Plan</th><th>EUR</th></tr>\n   <tr><td>Basic</td><td>5</td></tr>\n   <tr><td>Pro</td>"
        "\n   <td>9</td></tr>\n   </table>",
    ],
)
def test_a_table_in_an_item_keeps_its_rows(table: str) -> None:
    text = parse(f"1. Check:\n\n   {table}\n\n2. Go on\n".encode(), "text/markdown", title="x").text
    assert text == "1. Check:\n  Plan | EUR\n  Basic | 5\n  Pro | 9\n2. Go on"


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("~~500~~600 EUR, ~~4~~.", "500 600 EUR, 4."),
        ("Price <del>500</del><ins>600</ins> EUR, <s>4</s>5", "Price 600 EUR, 4 5"),
        ("# ~~500~~*600*\n\n- ~~5~~6\n", "500 600\n\n- 5 6"),
        ("<p>Price <del>500</del><ins>600</ins>, <s>4</s>5</p>\n", "Price 600 , 4 5"),
        ("Keep this text</del><ins>new</ins> end", "Keep this text new end"),
        ("<del>a</del> keep</del><ins>new</ins> end", "a keep new end"),
        ("Price <del>4 <s>5</s> 6</del><ins>7</ins> EUR", "Price 7 EUR"),
        ("Price <s>4</s><ins>7</ins> EUR", "Price 4 7 EUR"),
        ("Write `<del>a</del><ins>b</ins>`, <del>a</del> or <ins>b</ins>", "Write `<del>a</del><ins>b</ins>`, a or b"),
    ],
)
def test_struck_text_is_not_glued_to_the_new_one(markdown: str, expected: str) -> None:
    assert text(markdown) == expected


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[Alice]: yes\n[Bob]: No.\n", "[Alice]: yes\n[Bob]: No."),
        ("[12:30]: deployed\n\nNext.\n", "[12:30]: deployed\n\nNext."),
        (
            "Text [^1] here.\n\n[^1]: Ibid.\n[^2]: https://a.example/x\n",
            "Text [^1] here.\n\n[^1]: Ibid.\n[^2]: https://a.example/x",
        ),
        ("[a][1] [b][2] [c][3] [d][4]\n\n[1]: a.md\n[2]: /b\n[3]: #c\n[4]: <d e> 'D'\n", "a b c d"),
        ("[//]: # (not shown)\n[comment]: <> (not shown)\n\nText\n", "Text"),
        ("- [Alice]: yes\n- [Bob]:\n  no\n", "- [Alice]: yes\n- [Bob]: no"),
        ("[" * 5000 + "a]: x", "[" * 5000 + "a]: x"),
        ("See [Home][h], [Faq][f].\n\n[h]: Home\n[f]: https://a.example/faq\n", "See Home, Faq."),
        ("See [my  home][].\n\n> [My home]: Home\n", "See my home."),
        ("[Faq][f]\n\n[Alice]: yes\n[^1]: Ibid.\n[f]: https://a.example/faq\n", "Faq\n\n[Alice]: yes\n[^1]: Ibid."),
        ("[Bob]: no\nand\n[f]: https://a.example/faq\n", "[Bob]: no\nand\n[f]: https://a.example/faq"),
    ],
)
def test_a_reply_or_a_note_is_no_definition_of_a_link(markdown: str, expected: str) -> None:
    assert text(markdown) == expected


@pytest.mark.parametrize(
    "block",
    [
        "<main><h1>First</h1></main><p>Word</p>",
        "<header><ul><li>Word</li></ul></header>",
        "<li>First <button>Word</button></li>",
        "<ul><li><select><option>Word</select></li></ul>",
        "<nav><h2>First</h2><p>Word</p></nav>",
    ],
)
def test_blocks_of_html_keep_all_text(block: str) -> None:
    assert "Word" in parse(f"# Tool\n\n{block}\n".encode(), "text/markdown", title="x").text
