"""People and groups from where they are kept: Google's directory and a CSV file."""
