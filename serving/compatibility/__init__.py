"""Interfaces of other products, translated to the search and the answers of this one.

Each is one module with its routes; nothing imports the room but the app.
"""
