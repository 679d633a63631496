"""Sign-in in a browser: OpenID Connect, sessions, and their pages."""
