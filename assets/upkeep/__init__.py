"""Upkeep between syncs: audits, repairs, retention and erasure."""
