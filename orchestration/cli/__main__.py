"""`python -m orchestration.cli`: what `concordance` runs; `up --detach` starts itself this way."""

from orchestration.cli import main

main()
