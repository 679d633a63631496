"""What we use of `google-api-python-client`, which has no types."""

__file__: str
