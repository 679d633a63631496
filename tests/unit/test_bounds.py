"""Every field of every request is limited in length, count or range."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from litestar.params import QueryParameter
from litestar.routes import HTTPRoute
from msgspec import inspect

from resources.core.errors import InvalidRequestError
from resources.settings import Settings
from resources.sources.sidecars import MAX_TAG_BYTES, MAX_TAG_NAME, MAX_TAGS, check_plain
from serving.agents.mcp_tools import TOOLS
from serving.app import create_app
from serving.documents.files import UploadMetadata, parse_metadata


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return create_app(Settings(home=tmp_path_factory.mktemp("home"), _env_file=None))  # pyright: ignore[reportCallIssue]


def unbounded(kind: inspect.Type, path: str) -> Iterator[str]:
    """Yield the paths of a type that any number of bytes, items or digits would fit in."""
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                yield from unbounded(field.type, f"{path}.{field.encode_name}")
            if not kind.forbid_unknown_fields:
                yield f"{path} takes unknown fields"
        case inspect.UnionType():
            for one in kind.types:
                yield from unbounded(one, path)
        case inspect.Metadata():
            yield from unbounded(kind.type, path)
        case inspect.ListType():
            if kind.max_length is None:
                yield path
            yield from unbounded(kind.item_type, f"{path}[]")
        case inspect.DictType():
            if kind.max_length is None:
                yield path
        case inspect.StrType():
            if kind.max_length is None and kind.pattern is None:
                yield path
        case inspect.BytesType():
            if kind.max_length is None:
                yield path
        case inspect.IntType() | inspect.FloatType():
            if kind.ge is None or kind.le is None:
                yield path
        case inspect.AnyType() | inspect.CustomType():
            yield path
        case _:
            pass


def test_every_field_of_every_body_is_bounded(app: Any) -> None:
    seen: list[str] = []
    faults = list(unbounded(inspect.type_info(UploadMetadata), "upload"))
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            data = handler.parsed_fn_signature.parameters.get("data")
            if data is not None:
                seen.append(handler.operation_id)
                faults += unbounded(inspect.type_info(data.annotation), handler.operation_id)
    for name, tool in TOOLS.items():
        faults += unbounded(inspect.type_info(tool.takes), f"the tool {name}")
    assert len(seen) >= 11
    assert faults == []


def _is_choice(annotation: Any) -> bool:
    """Return True for a type with fixed values, or none at all."""
    if get_origin(annotation) is Annotated:
        return _is_choice(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return all(_is_choice(one) for one in get_args(annotation))
    return annotation in (bool, NoneType) or get_origin(annotation) is Literal


def test_every_query_parameter_is_bounded(app: Any) -> None:
    """Those of a path are bounded by the length of an address."""
    found = 0
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            for name, field in handler.parsed_fn_signature.parameters.items():
                if not isinstance(field.kwarg_definition, QueryParameter):
                    continue
                found += 1
                bound = field.kwarg_definition
                listed = bound.max_items is not None and "max_length" in repr(field.annotation)
                fixed = _is_choice(field.annotation)
                ranged = bound.ge is not None and bound.le is not None
                whole = bound.max_length is not None or ranged or listed or fixed
                assert whole, f"{name} of {handler.operation_id} has no bound"
    assert found >= 6


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ({f"t{number}": 1 for number in range(MAX_TAGS + 1)}, "51 tags; the limit is 50"),
        ({"t": "x" * MAX_TAG_BYTES}, "the limit is 16384"),
        ({"t" * (MAX_TAG_NAME + 1): 1}, "more than 200 characters"),
        ({"t": 10**30}, "must be a text, a number"),
        ({"t": {"deep": {}}}, "must be a text, a number"),
    ],
)
def test_tags_are_bounded_in_uploads_and_sidecars(tags: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says):
        check_plain(tags)
    with pytest.raises(InvalidRequestError, match=r"metadata"):
        parse_metadata({"metadata": [json.dumps({"tags": tags})]}, UploadMetadata)


def test_a_sidecar_with_bounded_tags_is_taken() -> None:
    check_plain({"topic": ["rent", "lease"], "year": 2026, "open": True, "note": "x" * 10_000})
