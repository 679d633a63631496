"""The running set: the supervisor and the services that it starts, checks and restarts.

No work of the services themselves: that is in `assets`, `serving` and `resources.servers`.
"""
