"""Name a document by its first heading where its file's name says nothing, such as `README.md` or `scan_0001.pdf`. Pure.

A title that the file gives itself comes first, and a name that says something stays: people search for files by their names.
"""

import re

from assets.stages.identify import own_title
from resources.core.domain import ParsedDocument
from resources.core.filetypes import extension

MOST_BLOCKS = 50
"""Blocks among which the first heading is: one further below is not the document's."""
_EMPTY = frozenset(
    """
    readme index default main home page untitled unnamed noname unbenannt new neu copy kopie of document documents doc docs dokument
    file files datei scan scans scanned scanner scannen img image images bild dsc dscn pxl photo picture screenshot snapshot capture
    screen shot export exported download downloads attachment anhang attach presentation presentations präsentation slides slide deck
    book workbook mappe sheet sheets worksheet tabelle text txt temp tmp test draft final version rev page pages print printout fax
    output out result data input microsoft word excel powerpoint google ccf kopia documento sans titre sin título senza titolo
    the a an and at um on le microsoftword pdf docx xlsx pptx html md
    """.split()  # noqa: SIM905 (a list of a hundred quoted words says less)
)
"""Words of names that programs and devices give, and that say nothing of what is inside."""
_NO_HEADING = frozenset(
    ("contents", "table of contents", "inhalt", "inhaltsverzeichnis", "summary", "abstract", "introduction", "preface")
)
"""Headings that many documents begin with."""
_WORD = re.compile(r"[^\W\d_]+")
_HASH = re.compile(r"(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}")
_SERIAL = re.compile(r"(?<![^\W_])[a-z][-_ ]?\d{3,}")
"""A letter with a number, which people search by: H-32077."""
_RANDOM = re.compile(r"(?=\w*\d\w*\d)(?=\w*[a-z])(?=\w*[A-Z])[A-Za-z0-9_-]{20,}")
_MARKS = "#*_`|>[]() \t"


def says_nothing(name: str) -> bool:
    """Return True if a file's name has only words such as programs and devices give, numbers, or a hash."""
    end = extension(name)
    stem = name[: -len(end)] if end and end != name else name
    if _RANDOM.fullmatch(stem):
        return True
    plain = _HASH.sub(" ", stem.casefold())
    return not _SERIAL.search(plain) and all(word in _EMPTY or len(word) == 1 for word in _WORD.findall(plain))


def first_heading(document: ParsedDocument) -> str | None:
    """Return the document's first heading; None if it has none, or one that says nothing either."""
    for block in document.blocks[:MOST_BLOCKS]:
        if block.kind != "heading":
            continue
        text = own_title(document.text[block.start : block.end].strip(_MARKS))
        if text is None or not _WORD.search(text) or says_nothing(text) or text.casefold() in _NO_HEADING:
            continue
        return text
    return None


def document_title(name: str, title: str | None, heading: str | None) -> str | None:
    """Return the title to show for a file of this name, which gives itself `title`; None for the name."""
    return title or (heading if says_nothing(name) else None)
