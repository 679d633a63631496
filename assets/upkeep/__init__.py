"""Upkeep between syncs: audits, repairs, retention and erasure.

No Dagster: schedules and commands that start the work are in `orchestration`.
"""
