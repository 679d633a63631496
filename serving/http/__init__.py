"""The foundation of the service: connections to the stores, limits, problems, metrics, and the audit log.

Every room builds on `http.service.HttpServices`; nothing here knows what a search or a person is.
"""
