"""Sign-in in a browser: OpenID Connect, sessions, and their pages.

No routes, which are in `serving.identity.sign_in_routes`. What a signed-in person may do is decided by roles and each read.
"""
