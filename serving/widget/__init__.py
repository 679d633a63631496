"""The chat widget for pages of other sites: its visitors, its events and its script."""
