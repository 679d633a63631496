"""References to passages: formats of citations and links to their place in the source.

Pure: no store, request or permission check. `serving.answers` decides which passages are cited.
"""
