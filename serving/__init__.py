"""The HTTP service: search, answers and uploads. It reads what the pipeline has written, and imports neither the pipeline nor Dagster."""
