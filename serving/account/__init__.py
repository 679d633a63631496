"""The page of one's own account with its export, and the pages of administrators.

The room gathers what the other rooms hold about a person; nothing imports it but the app.
"""
