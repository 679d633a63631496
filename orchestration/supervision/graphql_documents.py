"""GraphQL documents that Dagster's webserver may read: of limited size, and how much they ask for.

Parsing, validating and executing a document takes far longer than sending it: one of 3 MB kept the webserver busy for 42 s and took 1 GB.
The limits are several times what the largest document of Dagster's own pages needs: 7,000 characters, 900 fields, 11 levels, 4 aliases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    parse,
)

MAX_CHARACTERS = 50_000
MAX_TOKENS = 6_000
MAX_DEPTH = 20
MAX_FIELDS = 5_000
"""With fragments counted wherever they are spread."""
MAX_ALIASES = 30
MAX_REPETITIONS = 200
"""Of one field in one place, which validation compares in pairs."""


class DocumentRefusedError(Exception):
    """The document is too large, asks for too much or is not GraphQL; the message says which."""


@lru_cache(maxsize=256)
def operations(text: str) -> frozenset[OperationType]:
    """Return the kinds of a document's operations. Raises `DocumentRefusedError` if it exceeds a limit or is not GraphQL."""
    if len(text) > MAX_CHARACTERS:
        raise DocumentRefusedError(f"The GraphQL document has more than {MAX_CHARACTERS:,} characters.")
    try:
        document = parse(text, no_location=True, max_lexical_tokens=MAX_TOKENS, max_comments=MAX_TOKENS)
        found = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
        for one in found:
            _Extent(document).measure([one.selection_set], 1)
    except RecursionError:
        raise DocumentRefusedError(_TOO_DEEP) from None
    except GraphQLError as error:
        raise DocumentRefusedError(f"The GraphQL document is refused: {error.message[:200]}") from None
    return frozenset(one.operation for one in found)


_TOO_DEEP = f"The GraphQL document is nested more than {MAX_DEPTH} deep."


class _Extent:
    """What a document asks for with its fragments spread. The first limit that is exceeded ends the measurement."""

    def __init__(self, document: DocumentNode) -> None:
        named = [one for one in document.definitions if isinstance(one, FragmentDefinitionNode)]
        self._fragments = {one.name.value: one for one in named}
        self._seen = self._aliases = 0

    def measure(self, sets: Sequence[SelectionSetNode], depth: int) -> None:
        """Measure selection sets that are merged in the response, and those below."""
        if depth > MAX_DEPTH:
            raise DocumentRefusedError(_TOO_DEEP)
        below: defaultdict[str, list[SelectionSetNode]] = defaultdict(list)
        times: defaultdict[str, int] = defaultdict(int)
        for field in [field for one in sets for field in self._fields(one, frozenset())]:
            name = (field.alias or field.name).value
            times[name] += 1
            self._aliases += field.alias is not None
            if self._aliases > MAX_ALIASES:
                raise DocumentRefusedError(f"The GraphQL document has more than {MAX_ALIASES} aliases.")
            if times[name] > MAX_REPETITIONS:
                raise DocumentRefusedError(f"The GraphQL document repeats a field more than {MAX_REPETITIONS} times.")
            if field.selection_set is not None:
                below[name].append(field.selection_set)
        for one in below.values():
            self.measure(one, depth + 1)

    def _fields(self, selected: SelectionSetNode, spread: frozenset[str]) -> list[FieldNode]:
        """Return the fields of a selection set, and those of the fragments in it; `spread` are the fragments around it."""
        fields: list[FieldNode] = []
        for one in selected.selections:
            self._seen += 1
            if self._seen > MAX_FIELDS:
                raise DocumentRefusedError(f"The GraphQL document asks for more than {MAX_FIELDS:,} fields.")
            if isinstance(one, FieldNode):
                fields.append(one)
            elif isinstance(one, InlineFragmentNode):
                fields += self._fields(one.selection_set, spread)
            elif isinstance(one, FragmentSpreadNode):
                name = one.name.value
                if name in spread:
                    raise DocumentRefusedError(f"The fragment {name[:100]} of the GraphQL document contains itself.")
                if name in self._fragments:  # otherwise Dagster says that it does not exist
                    fields += self._fields(self._fragments[name].selection_set, spread | {name})
        return fields
