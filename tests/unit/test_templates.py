"""What every template of the pages keeps to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from resources.sources import specs
from serving import web

TEMPLATES = Path(web.__file__).parent / "templates"
SIGNED_OUT = TEMPLATES / "signed_out.html"
"""Its form leads to a provider, by the method that fits its fields (`tests/integration/test_provider_claims.py`)."""
SET_UPS = [spec.set_up for spec in specs() if spec.set_up]
FORMS = [
    pytest.param(form, id=f"{file.parent.name}/{file.name}:{number}")
    for file in sorted({*TEMPLATES.rglob("*.html"), *SET_UPS} - {SIGNED_OUT})
    for number, form in enumerate(re.findall(r"<form\b.*?</form>", file.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_becomes_a_part_of_an_address(form: str) -> None:
    """A form without a method puts its fields into the address if it is sent before its script has loaded."""
    (opening,) = re.findall(r"^<form\b[^>]*>", form)
    method = re.search(r'method="(\w+)"', opening)
    assert method, opening
    assert method[1] in {"get", "post", "dialog"}
    if method[1] == "get":
        assert "password" not in form
        assert 'action="/' in opening
