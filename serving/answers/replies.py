"""Read the replies of a chat completions service, which the SDK does not validate."""

from typing import Any

from resources.core.json import is_list


class MalformedError(Exception):
    """A reply is not what OpenAI's interface promises."""


def choice_of(reply: Any) -> Any:
    """Return a reply's only choice, or None if it has none."""
    choices: object = getattr(reply, "choices", None)
    if not is_list(choices):
        raise MalformedError(f"no choices in a reply of type {type(reply).__name__}")
    return choices[0] if choices else None


def reason_of(choice: Any) -> str | None:
    """Return why the model stopped."""
    reason = getattr(choice, "finish_reason", None)
    return reason if isinstance(reason, str) else None


def text_of(choice: Any, name: str) -> str:
    """Return the text of a choice's `message` or `delta`."""
    content = getattr(getattr(choice, name, None), "content", None) or ""
    if not isinstance(content, str):
        raise MalformedError(f"the content of {name} is of type {type(content).__name__}")
    return content
