"""The frame of the pages: rendering of templates, their filters and plots, static files, and the API documentation.

A page itself is in the room of what it shows; `web.render.view` returns it.
"""
