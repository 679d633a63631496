"""Parse an OpenDocument text (LibreOffice Writer) by way of Markdown, which odfdo writes."""

import io
import zipfile

from assets.stages.normalize import one_line
from assets.stages.parse.archive import check
from assets.stages.parse.markdown import markdown
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError


def parse(data: bytes) -> Parsed:
    """Return the blocks of an ODT file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    check(data, part="content.xml", kind="ODT")
    from lxml.etree import XMLSyntaxError
    from odfdo import Document

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if b"encryption-data" in archive.read("META-INF/manifest.xml"):
                raise SkipDocumentError("The ODT file is encrypted. Save it without a password.")
        document = Document(io.BytesIO(data))
        text = str(document.to_markdown())
        title, author = document.meta.title, document.meta.creator
    except (XMLSyntaxError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise SkipDocumentError(f"The ODT file is damaged: {one_line(str(error))[:160]}.") from None
    parsed = markdown(text)
    parsed.title = title or parsed.title
    parsed.author = author
    return parsed
