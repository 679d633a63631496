"""A soak test of the whole running set: searches, changes, syncs, kills and hostile clients at once, judged against a known truth.

`python -m bench.soak` (`make soak`) starts an installation of its own in a temporary folder and stops it at the end. All
traffic stays on the loopback interface, and every loop ends by itself.
"""
