"""The scripts of the pages, checked by the TypeScript compiler against their type comments, and parts of the widget's run by Node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import serving.widget
from serving.web.static import FOLDER
from tests.fixtures.npm import installed

OPTIONS = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--lib", "dom,dom.iterable,es2023",
    "--module", "esnext", "--moduleResolution", "bundler",
)  # fmt: skip


def test_scripts_are_typed() -> None:
    place = installed("typescript", typescript="7.0.2")
    compiler = place / "node_modules" / "typescript" / "lib" / "tsc.js"
    scripts = sorted(FOLDER.glob("*.js"))
    assert scripts
    done = subprocess.run(
        ["node", compiler, *OPTIONS, *scripts], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout


def piece(start: str, end: str) -> str:
    """Return a part of the widget's script, which has no exports."""
    script = (Path(serving.widget.__file__).parent / "widget.js").read_text(encoding="utf-8")
    return script[script.index(start) :].partition(end)[0] + end


def ran(program: str) -> object:
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_widget_reads_events_with_any_line_separator_in_their_texts() -> None:
    events: list[list[object]] = [
        ["token", {"text": "one\u2028two\u2029three: four"}],
        ["restart", {}],
        ["done", {"answer": "five"}],
    ]
    stream = "".join(f"event: {name}\r\ndata: {json.dumps(data, ensure_ascii=False)}\r\n\r\n" for name, data in events)
    program = (
        f"const sent = {json.dumps(stream)};"
        + piece("async function* eventsOf", "\n  }\n")
        + """
        (async () => {
          const found = [];
          for await (const event of eventsOf(new Blob([": \\r\\n\\r\\n", sent]).stream(), () => {})) found.push(event);
          console.log(JSON.stringify(found));
        })();"""
    )
    assert ran(program) == events


def test_the_widget_cuts_no_character_in_half() -> None:
    program = (
        piece("const cut =", "\n")
        + """
        const cuts = ["ab😀", "abc😀", "abc"].map((text) => cut(text, 3));
        console.log(JSON.stringify(cuts));"""
    )
    assert ran(program) == ["ab", "abc", "abc"]


def of_pages(script: str, program: str) -> object:
    """Run a program with what a script of the pages exports, in `page`."""
    address = json.dumps((FOLDER / script).as_uri())
    begun = "globalThis.location = new URL('https://search.acme.com/');"
    return ran(f"{begun} import({address}).then((page) => console.log(JSON.stringify({program})));")


def test_one_returns_to_the_same_place_of_a_page_after_signing_in() -> None:
    program = "(location.href = 'https://search.acme.com/documents/1?chunk=2#place', page.signIn())"
    assert of_pages("api.js", program) == "/sign-in?next=%2Fdocuments%2F1%3Fchunk%3D2%23place"


def test_an_address_marks_what_is_quoted_first_with_the_neighbours_that_are_quoted_with_it() -> None:
    program = """
      [[[98, 120], [85, 97]], [[98, 120], [40, 97], [900, 950]], [[20, 30]], []].map((quotes) =>
        page.marking("/documents/1?chunk=2#place", quotes.map(([start, end]) => ({ start, end }))).match(/from=.*to=\\d+/)?.[0] ?? "")"""
    assert of_pages("quotes.js", program) == ["from=85&to=120", "from=40&to=120", "from=20&to=30", ""]
