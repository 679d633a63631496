"""Work beside the syncs: audits, repairs, retention and erasure."""
