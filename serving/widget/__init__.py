"""The chat widget for pages of other sites: its visitors, its events and its script.

No routes, which are in `serving.routes.widget`, and no answers, which are made in `serving.answers`.
"""
