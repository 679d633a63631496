"""The routes of this room, module by module."""

from serving.identity import (
    administration,
    me,
    own_keys,
    passkeys,
    session_routes,
    sign_in_links,
    sign_in_routes,
    suggestions,
)
from serving.identity.scim import routes as scim

MODULES = (administration, me, own_keys, passkeys, scim, session_routes, sign_in_links, sign_in_routes, suggestions)
