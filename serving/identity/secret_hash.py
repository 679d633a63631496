"""The stored form of secrets that Concordance makes: API keys, session cookies and tokens of agents."""

import hashlib


def secret_hash(secret: str) -> str:
    """Return the SHA-256 hash of a secret. Secrets have 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()
