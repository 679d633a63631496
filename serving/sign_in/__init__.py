"""Sign-in in a browser: OpenID Connect, sessions, and their pages.

No routes, which are in `serving.routes.sign_in`. What a signed-in person may do is decided in `serving.access`.
"""
