"""Fixtures for every test: real parts as processes, and doubles of what can't be reached."""

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.vector",
    "tests.fixtures.installation",
    "tests.fixtures.serving",
    "tests.fixtures.company",
    "tests.fixtures.desk",
]
