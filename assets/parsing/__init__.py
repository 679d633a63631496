"""Parsing of untrusted files in confined worker processes."""
