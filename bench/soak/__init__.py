"""A soak test of a whole installation: concurrent searches, changes, syncs, kills and hostile clients, checked against known facts.

`python -m bench.soak` (`make soak`) starts an installation in a temporary folder and stops it at the end. All
traffic stays on the loopback interface, and every loop is bounded.
"""
