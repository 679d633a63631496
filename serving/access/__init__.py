"""Who is calling and what they may do: sign-in, tokens, API keys, roles and limits."""
