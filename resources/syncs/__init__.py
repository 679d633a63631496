"""Syncs as the registry knows them: their jobs, the partitions that they claim, progress, counts, and how one is started."""
