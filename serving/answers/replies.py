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


def use_of(reply: Any) -> tuple[int, int]:
    """Return the tokens that the model read and wrote; zeros if the reply does not say. Source:
    https://platform.openai.com/docs/api-reference/chat/object, `usage`
    """
    use = getattr(reply, "usage", None)
    counts = [getattr(use, name, 0) for name in ("prompt_tokens", "completion_tokens")]
    read, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    return read, written


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
