"""Pure functions of the stages: no Dagster, no network, no clock."""
