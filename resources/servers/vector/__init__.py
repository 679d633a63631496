"""The embedded vector server: Qdrant's engine (`qdrant_edge`) behind Qdrant's REST interface, in one process.

It answers requests of `qdrant-client` as a Qdrant server would. It exists so that a single machine needs no container, while
production sets a URL and runs the same code against a real Qdrant.

Run it with `python -m resources.servers.vector --path DIR --host 127.0.0.1 --port N`.
"""

# qdrant-client warns unless the server's minor version is within one of its own.
SERVER_VERSION = "1.20.0"
