"""`python -m orchestration.cli` is the same as `concordance`; `up --detach` starts itself this way."""

from orchestration.cli import main

main()
