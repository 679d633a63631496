"""Generates `concordance_client._generated` from the OpenAPI document of this checkout.

Responses become pydantic models, parameters and request bodies typed dictionaries, and operations methods of a synchronous and an
asynchronous class. Pages, webhooks and the routes of other interfaces are left out.
"""
