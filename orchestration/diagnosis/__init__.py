"""What `concordance doctor` and the checks before a start look at: settings, folders, ports, services, stores and models."""
