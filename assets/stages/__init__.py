"""Pure functions of the pipeline stages: no Dagster, network, database or clock."""
