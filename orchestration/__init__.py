"""Operation of the pipeline: Dagster definitions, jobs, schedules and checks, the running set, and the `concordance` command.

No other package imports it.
"""
