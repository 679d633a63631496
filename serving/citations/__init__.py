"""References to passages: formats of citations and links to their place in the source."""
