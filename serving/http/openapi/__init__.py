"""The OpenAPI document.

Its schemas come from the structs that validate requests and encode responses, the descriptions of fields from their docstrings, and the
problems of a route from `serving.http.problems.PROBLEMS`.
"""
