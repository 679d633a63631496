"""Pages as people save and export them: figures, tables and forms as they are shown, without what belongs to the site."""

from __future__ import annotations

import pytest

from assets.stages.parse import parse


def page(body: str, head: str = "") -> str:
    document = parse(f"<html><head>{head}</head><body>{body}</body></html>".encode(), "text/html", title="x")
    return document.text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>It cost 4.2<sup>1</sup> million.</p>", "It cost 4.2 [1] million."),
        ('<p>It cost 4.2<sup><a href="#n">1</a></sup> million.</p>', "It cost 4.2 [1] million."),
        ("<p>It cost 42<sup>[3]</sup> million.</p>", "It cost 42 [3] million."),
        ("<p>Sales<sup>2,3</sup> fell.</p>", "Sales [2,3] fell."),
        ("<h2>Revenue 2024<sup>1</sup></h2><p>x</p>", "Revenue 2024 [1]\n\nx"),
        ("<p>H<sub>2</sub>O and x<sup>2</sup>, 30 m<sup>2</sup></p>", "H2O and x², 30 m²"),
        ("<p>10<sup>6</sup> and 10<sup>-3</sup></p>", "10^6 and 10^-3"),
        ("<p>the 5<sup>th</sup> floor</p>", "the 5th floor"),
        (
            "<table><tr><th>Year</th><th>Sum</th></tr><tr><td>2024</td><td>4.2<sup>1</sup></td></tr></table>",
            "Year | Sum\n2024 | 4.2 [1]",
        ),
    ],
)
def test_marks_of_footnotes_stay_apart_from_figures(markup: str, text: str) -> None:
    assert page(markup) == text


HEAD = "<tr><th>Bird</th><th>Where</th><th>Call</th></tr>"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (HEAD + "<tr><td><p>Mallard</p></td><td><ul><li>ponds</li><li>lakes</li></ul></td><td>quack</td></tr>",
         "Bird | Where | Call\nMallard | ponds; lakes | quack"),
        (HEAD + "<tr><td>Teal</td><td><table><tr><td>salt</td><td>marsh</td></tr></table></td><td>none</td></tr>",
         "Bird | Where | Call\nTeal | salt marsh | none"),
        (HEAD + "<tr><td rowspan=2>Heron</td><td>rivers</td><td>kraak</td></tr><tr><td>lakes</td><td>none</td></tr>",
         "Bird | Where | Call\nHeron | rivers | kraak\nHeron | lakes | none"),
        (HEAD + "<tr><td>Stork</td><td colspan=2>unknown</td></tr>", "Bird | Where | Call\nStork | unknown | unknown"),
        ("<tr><th rowspan=2>Bird</th><th colspan=2>2024</th></tr>"
         "<tr><th>Seen</th><th>Heard</th></tr><tr><td>Heron</td><td>3</td><td>5</td></tr>",
         "Bird | 2024 Seen | 2024 Heard\nHeron | 3 | 5"),
        ("<caption>Table 1: birds</caption>" + HEAD + "<tr><td>Heron</td><td>rivers</td><td>kraak</td></tr>",
         "Table 1: birds\n\nBird | Where | Call\nHeron | rivers | kraak"),
        ("<tr><th>Born</th><td>1815</td></tr><tr><th>Died</th><td>1852</td></tr>", "Born | 1815\nDied | 1852"),
        ("<tr><td>Heron</td><td>3</td></tr><tr><td>Stork</td><td>5</td></tr>", "Heron | 3\nStork | 5"),
        ("<tr><td><h2>Layout</h2><p>Left</p></td><td><p>Right</p></td></tr>", "Layout\n\nLeft\n\nRight"),
    ],
)  # fmt: skip
def test_a_row_is_a_line_with_each_value_below_its_header(rows: str, text: str) -> None:
    assert page(f"<table>{rows}</table>") == text


def test_spans_of_a_hostile_table_are_bounded() -> None:
    text = page("<table>" + "<tr><td colspan=1000 rowspan=60000>x</td><td>y</td></tr>" * 300 + "</table>")
    assert len(text) < 500_000


@pytest.mark.parametrize(
    "markup",
    [
        "<nav><a href=/>Home</a> <a href=/shop>Shop</a></nav>",
        "<div role=navigation>Shop</div>",
        "<div role=search>Shop</div>",
        "<footer>Shop</footer>",
        "<p hidden>Shop</p>",
        "<p aria-hidden=true>Shop</p>",
        '<p style="color:red; display: none">Shop</p>',
        "<dialog>Shop</dialog>",
        '<div class="cookie-banner">Shop</div>',
        '<div id="cookie-consent">Shop</div>',
        '<div role=dialog>We use cookies in our Shop. <button>Accept</button></div>',
        '<div class="post share-buttons">Shop</div>',
        '<section class="related-posts"><h3>Shop</h3></section>',
        "<aside><h3>Related posts</h3><ul><li><a href=/shop>Shop</a></li></ul></aside>",
        "<section><h2>You may also like</h2><p><a href=/shop>Shop</a></p></section>",
        "<section><h2>Share this:</h2><button>Shop</button></section>",
        '<section><h2>More from this team<a href="#m">¶</a></h2><ul><li><a href=/shop>Shop</a></li></ul></section>',
        '<ul class="breadcrumb"><li>Shop</li></ul>',
        '<div id="breadcrumb-section"><ol id="breadcrumbs"><li><a href=i>Shop</a></li></ol></div>',
        '<div id="p-lang-btn" class="vector-dropdown mw-portlet mw-portlet-lang"><h2>Languages</h2><ul><li>Shop</li></ul></div>',
        '<div id="footer"><section class="footer-body"><p>Shop</p></section></div>',
        '<a class="skip-link" href="#m" aria-hidden=true>Shop</a>',
    ],
)  # fmt: skip
def test_what_belongs_to_the_site_goes(markup: str) -> None:
    assert page(f"{markup}<h1>Leave</h1><p>Thirty days a year.</p>") == "Leave\n\nThirty days a year."


@pytest.mark.parametrize(
    "markup",
    [
        '<section id="sharing"><h2>Sharing files</h2><p>Shop</p></section>',
        '<section id="cookies"><h2>Cookies</h2><p>A Shop sets one <button>Copy</button></p></section>',
        '<section id="share"><h2>Share on Teams<a href="#share">¶</a></h2><p>Open the Shop and <a href=/t>Teams</a>.</p></section>',
        '<div><h3><a href="#more">More from this quarter</a></h3><p>Shop</p></div>',
        "<section><h2>Related articles</h2><p>Articles 6 and 9 apply to a Shop.</p></section>",
        '<div class="more-content">Shop</div>',
        "<svg><defs><text>No</text></defs><title>No</title><text>Shop</text></svg>",
        "<svg><foreignObject><div>Shop</div></foreignObject></svg>",
        "<p>Place: <input value=Shop></p>",
        "<p>Place: <select><option>Farm</option><option selected>Shop</option></select></p>",
        "<p>Place: <textarea>Shop</textarea></p>",
        '<section id="breadcrumbs"><h3>Breadcrumbs</h3><p>Shop</p></section>',
        "<article><p>Text</p><footer>Shop</footer></article>",
        "<aside class=note>Shop</aside>",
        "<header><p>Shop</p></header>",
        "<div role=tabpanel hidden>Shop</div>",
        "<details><summary>More</summary>Shop</details>",
        '<div hidden="until-found">Shop</div>',
        "<blockquote><p>Words</p><footer>Shop</footer></blockquote>",
        "<p><math><mi>Shop</mi></math></p>",
    ],
)
def test_content_stays_that_looks_like_it(markup: str) -> None:
    assert "Shop" in page(f"<h1>Leave</h1><p>Thirty days a year.</p>{markup}")


@pytest.mark.parametrize(
    "markup",
    [
        "<h3><button aria-expanded=false aria-controls=p1>Refunds?</button></h3><div id=p1 role=region hidden>14 days.</div>",
        '<button aria-controls="x p1">Refunds?</button><div id=p1 aria-hidden=true style="color:red;display:none">14 days.</div>',
        "<h3>Refunds?</h3><div role=region aria-labelledby=q hidden>14 days.</div>",
        '<h3 role=tab>Refunds?</h3><div role=tabpanel aria-hidden=true style="display: none">14 days.</div>',
        '<button class="faq-accordion">Refunds?</button><div class=panel>14 days.</div>',
        '<div class="expand-container"><button class="expand-control"><span>Refunds?</span></button>'
        '<div class="expand-content" style="display: none; opacity: 0;">14 days.</div></div>',
        '<h4>Refunds?</h4><div class="panel-collapse" style="display: none">14 days.</div>',
        "<table><tr><th>Question<th>Answer<tr><td><button aria-controls=a>Refunds?</button><td><p id=a hidden>14 days.</p></table>",
    ],
)
def test_accordions_keep_questions_and_answers(markup: str) -> None:
    text = page(f"<h1>Questions</h1>{markup}<p>Thirty days a year.</p>")
    assert "Refunds?" in text
    assert "14 days." in text
    assert "14 days.Thirty" not in text


@pytest.mark.parametrize(
    "markup",
    [
        "<div id=p1 hidden>Shop</div><button>More</button>",
        '<button hidden aria-controls=p1>More</button><div id=p1 style="display:none">Shop</div>',
        "<button aria-controls=p1>More</button><dialog id=p1>Shop</dialog>",
        "<button aria-controls=p1>More</button><div id=p1 role=dialog hidden>Shop</div>",
        "<button aria-controls=p1>More</button><ul id=p1 role=menu hidden><li>Shop</li></ul>",
        "<button aria-controls=p1>More</button><nav id=p1 hidden>Shop</nav>",
        "<div id=p1><p hidden>Shop</p></div><a aria-controls=p1>Leave</a>",
    ],
)
def test_what_no_control_of_the_text_shows_stays_hidden(markup: str) -> None:
    text = page(f"<h1>Leave</h1>{markup}<p>Thirty days a year.</p>")
    assert "Shop" not in text
    assert "More" not in text


@pytest.mark.parametrize(
    "markup",
    [
        '<div role=region aria-label="Cookies"><table><tr><th>Cookie<th>Days<tr><td><a href=s>sid</a><td>30</table></div>',
        "<div role=region aria-labelledby=q>Session cookies stay for 30 days: <a href=/p>policy</a>.</div>",
        "<header role=banner><h1>Cookies</h1><p>All of the last 30 days: <a href=/p>policy</a></p></header>",
    ],
)
def test_a_section_about_cookies_is_no_banner(markup: str) -> None:
    assert "30" in page(f"<h1>Leave</h1>{markup}<p>Thirty days a year.</p>")


@pytest.mark.parametrize(
    "markup",
    [
        pytest.param(
            '<span class="mwe-math-element"><span class="mwe-math-mathml-inline mwe-math-mathml-a11y" style="display: none;">'
            '<math alttext="{\\displaystyle A^{2}}"><mi>A</mi><mn>2</mn></math></span>'
            '<img class="mwe-math-fallback-image-inline" aria-hidden="true" alt="{\\displaystyle A^{2}}"></span>',
            id="MediaWiki",
        ),
        pytest.param(
            '<span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>A</mi><mn>2</mn></mrow>'
            '<annotation encoding="application/x-tex">A^{2}</annotation></semantics></math></span>'
            '<span class="katex-html" aria-hidden="true">A2</span></span>',
            id="KaTeX",
        ),
    ],
)
def test_a_formula_is_read_once_as_it_was_written(markup: str) -> None:
    assert page(f"<p>The area {markup} grows.</p><table><tr><th>a<th>b<tr><td>{markup}<td>1</table>") == (
        "The area A^{2} grows.\n\na | b\nA^{2} | 1"
    )


def test_the_only_main_element_is_the_content() -> None:
    text = page(
        "<header><h1>Leave</h1><p>Acme intranet</p></header><main><p>Thirty days a year.</p></main><div>Contact us</div>"
    )
    assert text == "Leave\n\nThirty days a year."


def test_a_teaser_is_not_the_content() -> None:
    assert "Thirty days" in page(
        "<article>New!</article><p>Thirty days a year, and five more for everybody who asks.</p>"
    )


def test_a_page_of_boilerplate_only_is_kept() -> None:
    assert page("<nav><a href=/a>Terms of delivery</a></nav>") == "Terms of delivery"


def test_boxes_of_forms_are_shown() -> None:
    assert page("<p><input type=checkbox checked> Yes <input type=checkbox> No</p>") == "☒ Yes ☐ No"


def test_empty_elements_of_xhtml_swallow_nothing() -> None:
    data = b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head>'
    data += b'<body><a id="x"/><p>Text</p></body></html>'
    assert parse(data, "text/html", title="x").text == "Text"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<h2>Using C#</h2>", "Using C#"),
        ("<h2>Using C# ¶</h2>", "Using C#"),
        ('<h2>Using C#<a href="#c">#</a></h2>', "Using C#"),
        ('<h2><a href="#c">#</a> Install</h2>', "Install"),
        ("<h2># Install #</h2>", "Install"),
        ("<h2><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp></ruby>京</h2>", "東京"),
        ("<p><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp></ruby>京</p>", "東京"),
        ('<ol><li value="5">Hum</li><li>Leak</li></ol>', "5. Hum\n6. Leak"),
        ('<ul><li value="5">Hum</li></ul>', "- Hum"),
        ('<ol type="a"><li>Hum</li><li>Leak</li></ol>', "a. Hum\nb. Leak"),
        ('<ol type="I" start="4"><li>Hum</li><li>Leak</li></ol>', "IV. Hum\nV. Leak"),
        ('<ol type="?"><li>Hum</li></ol>', "1. Hum"),
        ("<ol reversed><li>Hum</li><li>Leak<ol><li>Oil</li></ol></li></ol>", "2. Hum\n1. Leak\n  1. Oil"),
        ('<ol reversed start="9"><li>Hum</li><li value="5">Leak</li><li>Oil</li></ol>', "9. Hum\n5. Leak\n4. Oil"),
    ],
)
def test_headings_readings_and_numbers_as_they_are_shown(markup: str, text: str) -> None:
    assert page(markup) == text


PYGMENTS = (
    '<div class="highlight"><table class="highlighttable"><tr><td class="linenos"><div class="linenodiv"><pre>'
    '<span class="normal">1</span>\n<span class="normal">2</span></pre></div></td><td class="code"><div><pre><span></span>'
    "<code>if x:\n    <span>y()</span>\n</code></pre></div></td></tr></table></div>"
)
CHROMA = (
    '<table class="lntable"><tr><td class="lntd"><pre><code><span class="lnt">1\n</span><span class="lnt">2\n</span></code></pre>'
    '</td><td class="lntd"><pre><code>if x:\n    y()\n</code></pre></td></tr></table>'
)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<pre>if x:<br>    y()<br>z</pre>", "if x:\n    y()\nz"),
        ("<pre><div>if x:</div><div>    y()</div></pre>", "if x:\n    y()"),
        ("<pre><code>if x:\n    y()</code><button>Copy</button></pre>", "if x:\n    y()"),
        ('<pre><span class="linenos">1 </span>if x:\n<span class="linenos">2 </span>    y()</pre>', "if x:\n    y()"),
        (PYGMENTS, "if x:\n    y()"),
        (CHROMA, "if x:\n    y()"),
        ('<pre>key = <span style="display:none">secret</span>x</pre>', "key = x"),
        (
            "<ol><li>Install:<pre>pip install acme\n\n  acme init\n</pre></li><li><pre>acme run\nacme stop</pre></li></ol>",
            "1. Install:\n  pip install acme\n    acme init\n2. acme run\n  acme stop",
        ),
        ("<ul><li>a<ul><li>b<pre>c\nd</pre></li></ul></li></ul>", "- a\n  - b\n    c\n    d"),
    ],
)
def test_code_keeps_its_lines_and_nothing_else(markup: str, text: str) -> None:
    assert page(markup) == text


def test_a_table_in_an_item_keeps_its_rows() -> None:
    rows = "<tr><th>Plan<th>EUR<tr><td>Basic<td>5<tr><td>Pro<td>9"
    assert page(f"<ol><li>Check:<table><caption>Plans</caption>{rows}</table></li><li><table>{rows}</table></ol>") == (
        "1. Check:\n  Plans\n  Plan | EUR\n  Basic | 5\n  Pro | 9\n2. Plan | EUR\n  Basic | 5\n  Pro | 9"
    )


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>Price <del>500</del><ins>600</ins> EUR</p>", "Price 600 EUR"),
        ("<p>Price <del>500</del> <ins>600</ins> EUR</p>", "Price 600 EUR"),
        ("<p>Price <s>500</s>600, <strike>1</strike>€ 2</p>", "Price 500 600, 1 € 2"),
        ("<p><b>The <del>500</del></b>600 (<s>700</s>), <s>800</s>.</p>", "The 500 600 (700), 800."),
        ("<p><ins>600</ins><del>500</del></p>", "600 500"),
        ("<h2><s>500</s>600</h2><pre><del>500</del>600</pre>", "500 600\n\n500 600"),
        ("<table><tr><th>A<th>B<tr><td><s>500</s>600<td><del>5</del><ins>6</ins></table>", "A | B\n500 600 | 6"),
    ],
)
def test_struck_text_is_not_glued_to_the_new_one(markup: str, text: str) -> None:
    assert page(markup) == text


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ('<span style="font-size:0">Shop</span>', False),
        ('<div style="color:red; FONT-SIZE: 0.0px !important"><p>Shop</p></div>', False),
        ('<p>x <span style="font-size:12px;font-size:0em;">Shop</span></p>', False),
        ('<span style="font-size:0.9em">Shop</span>', True),
        ('<span style="font-size:0;font-size:12px">Shop</span>', True),
        ('<table><tr><td style="font-size:0px"><div style="font-size:13px">Shop</div></td></tr></table>', True),
        ('<div style="font-size:0"><div class="column">Shop</div></div>', True),
        ('<a style="mso-hide:all" href="/shop">Shop</a>', True),
    ],
)
def test_text_without_a_size_is_hidden(markup: str, shown: bool) -> None:
    assert ("Shop" in page(f"<p>Thirty days a year.</p>{markup}")) is shown


def test_most_of_a_page_that_a_dialog_covers_is_read() -> None:
    covered = "<div aria-hidden=true><h1>Leave</h1><p>Thirty days a year, and five more for parents.</p></div>"
    dialog = "<div role=dialog><p>Subscribe now</p></div><script>" + "var a = 1; " * 100 + "</script>"
    assert "Thirty days" in page(covered + dialog)
    closed = (
        '<div class="modal" aria-hidden=true role=dialog><p>Enter your name and password to go on, please.</p></div>'
    )
    assert page(f"<p>Hello.</p>{closed}") == "Hello."


@pytest.mark.parametrize("start", ["<div aria-hidden=true>", "<div class=social-media>"])
def test_hostile_nesting_is_read_once(start: str) -> None:
    assert page("<p>Before.</p>" + start * 1400 + "word " * 80_000) == "Before."


@pytest.mark.parametrize(
    "drawing",
    [
        '<foreignObject><div style="display:none">SECRET</div><script>SECRET</script><style>SECRET</style>Seen</foreignObject>',
        '<text><title>SECRET</title>Seen<tspan display="none">SECRET</tspan></text>',
        '<g visibility="hidden"><text>SECRET</text></g><text>Seen</text>',
    ],
)
def test_what_a_drawing_does_not_show_is_left_out(drawing: str) -> None:
    assert page(f"<svg>{drawing}</svg>") == "Seen"


def test_the_title_of_a_picture_is_not_that_of_the_page() -> None:
    source = b"<body><svg><title>menu icon</title></svg><h1>Travel policy</h1><p>Fly less.</p>"
    assert parse(source, "text/html", title="travel.html").title is None


@pytest.mark.parametrize(
    ("markup", "anchor"),
    [
        ('<h2 id="own"><a id="inner"></a>Trips</h2>', "own"),
        ('<h2><a name="inner"></a>Trips</h2>', "inner"),
        ('<h2><span id="inner">Trips</span></h2>', "inner"),
        ('<section id="around">\n<h2>Trips</h2></section>', "around"),
        ('<section id="around"><p>Before.</p><h2>Trips</h2></section>', None),
    ],
)
def test_a_heading_is_reached_by_the_name_beside_it(markup: str, anchor: str | None) -> None:
    found = parse(f"<h1>Travel</h1>{markup}<p>Fly less.</p>".encode(), "text/html", title="x")
    assert [block.anchor for block in found.blocks if block.kind == "heading"] == [None, anchor]
