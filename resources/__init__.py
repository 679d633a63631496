"""The outside world in plain Python: settings, sources, stores, models and embedded servers. Dagster appears in `bindings` alone."""
