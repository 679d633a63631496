"""Score formulas: convert Qdrant's JSON expressions to the engine's `Expression`.

Source: https://qdrant.tech/documentation/concepts/hybrid-queries/#score-boosting
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import format_error
from resources.servers.vector.filters import Condition, to_condition

_made = edge.Expression
_ONE: dict[str, Callable[[edge.Expression], edge.Expression]] = {
    "neg": _made.Neg,
    "abs": _made.Abs,
    "sqrt": _made.Sqrt,
    "exp": _made.Exp,
    "log10": _made.Log10,
    "ln": _made.Ln,
    "acosh": _made.Acosh,
}
_MANY: dict[str, Callable[[list[edge.Expression]], edge.Expression]] = {
    "sum": _made.Sum,
    "mult": _made.Mult,
    "max": _made.Max,
    "min": _made.Min,
}
_DECAY = {"exp_decay": edge.DecayKind.Exp, "gauss_decay": edge.DecayKind.Gauss, "lin_decay": edge.DecayKind.Lin}


def to_formula(expression: Any, defaults: dict[str, Any] | None) -> edge.Formula:
    """Convert a formula; a variable missing from a payload takes its value from `defaults`."""
    return edge.Formula(to_expression(expression), defaults or {})


def to_expression(node: Any) -> edge.Expression:
    """Convert a number, a variable such as `$score`, a condition (1 if true) or an operation on expressions."""
    if isinstance(node, bool) or node is None:
        raise format_error(f"{node} is not an expression")
    if isinstance(node, int | float):
        return _made.Constant(float(node))
    if isinstance(node, str):
        return _made.Variable(node)
    if not isinstance(node, Mapping):
        raise format_error("an expression is a number, a variable or an object")
    named = cast("Mapping[str, Any]", node)
    if len(named) == 1:
        [(name, value)] = named.items()
        operation = _operation(name, value)
        if operation is not None:
            return operation
    return _made.Condition(to_condition(msgspec.convert(named, Condition)))


def _operation(name: str, value: Any) -> edge.Expression | None:
    if name in _ONE:
        return _ONE[name](to_expression(value))
    if name in _MANY:
        return _MANY[name]([to_expression(item) for item in value])
    if name in _DECAY:
        target = _field(value, "target", required=False)
        return _made.Decay(
            _DECAY[name],
            to_expression(_field(value, "x")),
            None if target is None else to_expression(target),
            _field(value, "midpoint", required=False),
            _field(value, "scale", required=False),
        )
    if name == "div":
        left, right = to_expression(_field(value, "left")), to_expression(_field(value, "right"))
        return _made.Div(left, right, _field(value, "by_zero_default", required=False))
    if name == "pow":
        return _made.Pow(to_expression(_field(value, "base")), to_expression(_field(value, "exponent")))
    if name == "datetime":
        return _made.Datetime(value)
    if name == "datetime_key":
        return _made.DatetimeKey(value)
    if name == "geo_distance":
        origin = _field(value, "origin")
        return _made.GeoDistance(edge.GeoPoint(_field(origin, "lon"), _field(origin, "lat")), _field(value, "to"))
    return None


def _field(value: Any, name: str, *, required: bool = True) -> Any:
    if not isinstance(value, Mapping):
        raise format_error(f"an object with `{name}` is needed")
    found = cast("Mapping[str, Any]", value).get(name)
    if required and found is None:
        raise format_error(f"missing field `{name}`")
    return found
