"""Who is asking: sign-in, sessions, tokens, API keys, the directory of people and groups, and SCIM.

`identity.authentication` turns a request into an `Access`, which every read of a higher room takes; the room offers `IdentityServices`.
"""
