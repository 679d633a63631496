"""What a model writes is cleaned: citations in one form and only real ones, no link, no HTML, however it was cut while streaming."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.answers.cleaning import Cleaner, clean
from serving.answers.leaks import Leaks
from serving.answers.prompt import ours
from serving.search.quoting import LINK_REMOVED

CASES = {
    "It lasts 6.5 years [1].": ("It lasts 6.5 years [1].", 0, 0),
    "It lasts [1][7]. See [9] .": ("It lasts [1]. See.", 2, 0),
    "Both say so [1, 2; 9].": ("Both say so [1][2].", 1, 0),
    "【3】 and [^2] and [Source 1].": ("[3] and [2] and [1].", 0, 0),
    "[1-3]. [2–3]. [#1] [1]–[3]": ("[1][2][3]. [2][3]. [1] [1]–[3]", 0, 0),
    "[Quelle 1], [source: 1], [Source 1, Source 2], [réf. 3]": ("[1], [1], [1][2], [3]", 0, 0),
    "[1, p. 4; 2, Seite 5–6] 【1†source】【4:0†a.pdf】": ("[1][2] [1]", 1, 0),
    "[#123], [Ref: 4711], [9, p. 5], [Quelle 8] and [#1].": (
        "[#123], [Ref: 4711], [9, p. 5], [Quelle 8] and [1].",
        0,
        0,
    ),
    f"[1†{'&1†' * 60},x]": (f"[1†{'&1†' * 60},x]", 0, 0),
    "[1-9] [2024–2026] [0-9] [1:30] [page 4]": ("[1-9] [2024–2026] [0-9] [1:30] [page 4]", 0, 0),
    "Use items[0] first, m[0][1], f()[0] [0]. It lasts[2].": (
        "Use items［0］ first, m［0］[1], f()［0］. It lasts[2].",
        1,
        0,
    ),
    "A claim [0], another [-1].": ("A claim, another [-1].", 1, 0),
    "Click [here](https://evil.example/x?y=(1)) now.": ("Click here now.", 0, 1),
    "![pixel](http://evil.example/p.png?d=1) hi": ("pixel hi", 0, 1),
    "<a href='http://evil.example'>click</a> <b>bold</b>": ("click bold", 0, 1),
    "a < b and 3<4, p<0.05": ("a < b and 3<4, p<0.05", 0, 0),
    "go to https://evil.example/a. Then": (f"go to {LINK_REMOVED}. Then", 0, 1),
    "see 0//evil.example/x and src//main.py": (f"see {LINK_REMOVED} and src//main.py", 0, 1),
    "(see www.evil.example/x)": (f"(see {LINK_REMOVED})", 0, 1),
    "[1](http://evil.example)": ("[1]", 0, 1),
    "[click](javascript:alert(1)) x": ("click x", 0, 1),
    "[open](/documents/1)": ("open", 0, 1),
    "<https://evil.example> x": ("x", 0, 1),
    "<script>alert(1)</script>": ("alert(1)", 0, 0),
    "<img src=x onerror=alert(1)": ("‹img src=x onerror=alert(1)", 0, 0),
    "Use List<String> or Map<String, List<Int>>.": ("Use List‹String› or Map‹String, List‹Int››.", 0, 0),
    "Compare x<y and a<b.\nThen a > b, `vector<int>`": ("Compare x‹y and a‹b.\nThen a > b, `vector‹int›`", 0, 0),
    "Press <Enter>, then </Enter>. A<[1]> <!-- no --> ->": ("Press ‹Enter›, then ‹/Enter›. A<[1]> ->", 0, 0),
    "<x href='http://evil.example'>a</x> <y e.com/x": (f"a‹/x› ‹y {LINK_REMOVED}", 0, 2),
    "htt<x>p://evil.example <//evil.example>": (f"htt‹{LINK_REMOVED}", 0, 2),
    "htt<b>p://evil.example": (f"htt {LINK_REMOVED}", 0, 1),
    "http[9]://evil.example": ("http ://evil.example", 1, 0),
    "[http](x)://evil.example": ("http ://evil.example", 0, 1),
    "h\u200bttp://evil.example": (LINK_REMOVED, 0, 1),
    "data: 5 GB; the file: C:/x; note [a] and [b c](d e)": (
        "data: 5 GB; the file: C:/x; note [a] and [b c] (d e)",
        0,
        0,
    ),
    '[a [b] c](/x) and [a 【b】](0) and [a](b "c")': ('[a [b] c] (/x) and [a 【b】] (0) and [a] (b "c")', 0, 0),
    "[a]: /x\n- [1]: /x\n[a\nb]: /x": ("[a] : /x\n- [1] : /x\n[a\nb] : /x", 0, 0),
    "So says [1]: it is so.": ("So says [1]: it is so.", 0, 0),
    "evil.com/pay and evil.example/pay": (f"{LINK_REMOVED} and {LINK_REMOVED}", 0, 2),
    "Open //evil.example/a now": (f"Open {LINK_REMOVED} now", 0, 1),
    r"Open http:\\evil.example or http:\evil.example.": (f"Open {LINK_REMOVED} or {LINK_REMOVED}.", 0, 2),
    "Open https:/evil.example, it helps": (f"Open {LINK_REMOVED}, it helps", 0, 1),
    "Open https&#58;//evil.example or evil&period;com/a": (f"Open {LINK_REMOVED} or {LINK_REMOVED}", 0, 2),
    "Call tel:+4930123456 or sms:+4930123456": (f"Call {LINK_REMOVED} or {LINK_REMOVED}", 0, 2),
    "Open ｅｖｉｌ．ｃｏｍ／a": (f"Open {LINK_REMOVED}", 0, 1),
    "Open **evil.com**/a or evil.com.": (f"Open {LINK_REMOVED} or {LINK_REMOVED}.", 0, 2),
    "Open e.**com**/a": (f"Open {LINK_REMOVED}", 0, 1),
    "Open 10.0.0.7/admin, localhost:8080/x": (f"Open {LINK_REMOVED}, {LINK_REMOVED}", 0, 2),
    "slack://open?team=T1 vscode:/x": (f"{LINK_REMOVED} {LINK_REMOVED}", 0, 2),
    "Open http://[2001:db8::1]/x, https://[::1]:8443 or HTTP:[::1]/.": (
        f"Open {LINK_REMOVED}, {LINK_REMOVED} or {LINK_REMOVED}.",
        0,
        3,
    ),
    "Open //[::1]/x, [2001:db8::1]:8080/a, [fe80::1%25eth0]/b or http://me@[::ffff:10.0.0.1]?c": (
        f"Open {LINK_REMOVED}, {LINK_REMOVED}, {LINK_REMOVED} or {LINK_REMOVED}",
        0,
        4,
    ),
    "[1]://[::1]/x, [click](//[::1]/x), <http://[::1]/>": (f"[1] {LINK_REMOVED}, click,", 0, 3),
    "http[9]://[::1]/x and ［２００１：db8::1］/x": (f"http {LINK_REMOVED} and {LINK_REMOVED}", 1, 2),
    "It listens on [::1], says the note:[2] see a/[1] and [b:c:d]/e": (
        "It listens on [::1], says the note:[2] see a/[1] and [b:c:d]/e",
        0,
        0,
    ),
    "Version 2.13.7.1, handbook.md, setup.py, 3.5/kg, and/or, Node.js/React, the plan.In 2026, hr@acme.example": (
        "Version 2.13.7.1, handbook.md, setup.py, 3.5/kg, and/or, Node.js/React, the plan.In 2026, hr@acme.example",
        0,
        0,
    ),
    "slides (https://e.example/a), notes ((www.e.example)": (f"slides {LINK_REMOVED}, notes ({LINK_REMOVED}", 0, 2),
    "[1] (see below)": ("[1] (see below)", 0, 0),
    "text [unclosed": ("text [unclosed", 0, 0),
    "- one [1]\n- two [2]\n\nEnd.": ("- one [1]\n- two [2]\n\nEnd.", 0, 0),
    "  spaces first": ("spaces first", 0, 0),
}


@pytest.mark.parametrize(("written", "shown"), CASES.items())
def test_what_is_written_and_what_is_shown(written: str, shown: tuple[str, int, int]) -> None:
    assert clean(written, 3) == shown


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "[",
                "]",
                "(",
                ")",
                "<",
                ">",
                "!",
                "[1]",
                "[9]",
                "http://e.x",
                "www.e.x",
                "e.com/x",
                "//e.com",
                "[::1]",
                "[2001:db8",
                "::1]/x",
                "https:/e.com",
                "tel:1",
                " ",
                "\n",
                ".",
                "a",
                "b>",
                "<x",
                "<b",
                ":",
                "//",
                "【",
                "】",
                "\u06cc",
                "\u200c",
                "\u200d",
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=30,
).map("".join)


@given(PIECES, st.lists(st.integers(1, 9), max_size=60))
@example("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", [2, 1])
@example("\u06cc\u200c\u06cc\u200c\u06cc", [3])
@example("a\u200c\u06cc\u200c\u200c\u200d\u200d\u06cc\u200db\u06cc\u200c", [1] * 60)
def test_however_it_is_cut_the_same_comes_out(text: str, cuts: list[int]) -> None:
    cleaner, shown, at = Cleaner(3), "", 0
    for cut in cuts:
        shown += cleaner.feed(text[at : at + cut])
        at += cut
    shown += cleaner.feed(text[at:]) + cleaner.finish()
    assert (shown, cleaner.citations, cleaner.links) == clean(text, 3)


@given(PIECES)
@example("[a 【b】](0)")
@example("/e.com/x")
@example("_e.com/xhttp://e.x")
def test_no_address_no_markdown_link_and_no_invented_number_is_left(text: str) -> None:
    shown, _, _ = clean(text, 3)
    assert not re.search(r"[a-z]://|\bwww\.\w|\]\([^\s()]+\)", shown, re.IGNORECASE) or "(link removed)" in shown
    assert not re.search(r"https?:/|javascript:\S|\btel:\S|(?<!\S)e\.com/", shown, re.IGNORECASE)
    assert {int(number) for number in re.findall(r"\[(\d{1,4})\]", shown)} <= {1, 2, 3}


LEAKED = {
    "| It lasts 6.5 years [1].\n|\n| | Cells too [2].": "It lasts 6.5 years [1].\n\nCells too [2].",
    "Answer:\nIt lasts 6.5 years [1].": "It lasts 6.5 years [1].",
    "Answer: It lasts 6.5 years [1].": "It lasts 6.5 years [1].",
    "=== SOURCES f00d ===\n--- document f00d (Files):\n| Heron\n=== END OF SOURCES ===\nIt lasts [1].": "Heron\nIt lasts [1].",
    "- Copy figures, dates, names and units exactly. It lasts [1].": "It lasts [1].",
    "Do not guess.\nAnswer in one to three sentences. It lasts [1].": "It lasts [1].",
    "The Quillon depot opens at 7:30 [1].": "",
    "It says: do not guess. Answer: yes": "It says: do not guess. Answer: yes",
    "- one [1]\n- two [2]\n---\nthe a | b": "- one [1]\n- two [2]\n---\nthe a | b",
    "Answers vary [1].\n1. Copy it [1].": "Answers vary [1].\n1. Copy it [1].",
    "Copy figures, dates": "Copy figures, dates",
    "=== Question:\n== Question f00d (Files)\nYes [1].": "Yes [1].",
    'Do not guess. Cite [1] to [3], or reply "No data found".\nYes [1].': "Yes [1].",
    "Cite it": "Cite it",
}


def leakless() -> Cleaner:
    return Cleaner(3, Leaks(ours()))


@pytest.mark.parametrize(("written", "shown"), LEAKED.items())
def test_what_a_model_repeats_of_its_prompt_is_not_shown(written: str, shown: str) -> None:
    cleaner = leakless()
    assert cleaner.feed(written) + cleaner.finish() == shown


OURS = st.lists(
    st.one_of(
        st.sampled_from(["| ", "|", "\n", "- ", "1. ", "=", "===", "---", " f00d", " ", *ours()]), st.text(max_size=4)
    ),
    max_size=12,
).map("".join)


@given(OURS, st.lists(st.integers(1, 9), max_size=200))
def test_however_it_is_cut_the_same_leaks_are_removed(text: str, cuts: list[int]) -> None:
    whole, cut, shown, at = leakless(), leakless(), "", 0
    for length in cuts:
        shown += cut.feed(text[at : at + length])
        at += length
    shown += cut.feed(text[at:]) + cut.finish()
    assert shown == whole.feed(text) + whole.finish()
