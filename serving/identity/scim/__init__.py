"""SCIM 2.0 (RFC 7643 and 7644): an identity provider creates, changes and deactivates people and groups.

No routes, which are in `serving.identity.scim.routes`, and no reads of documents.
"""
