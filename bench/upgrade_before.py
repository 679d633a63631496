"""Fill an installation of the version before, for `bench/upgrade.py`, which runs this with that version's interpreter and modules.

Prints one line of JSON with its addresses once it is ready, and removes everything at the end of its standard input.
"""

import json
import sys
from datetime import timedelta

from bench.search_data import EMAIL, SECTIONS, Company, groups
from bench.search_fill import grow
from bench.search_setup import parts
from resources.embedding import embedder
from serving.identity.tokens import mint


def main() -> None:
    """Run it: `python -P bench/upgrade_before.py PASSAGES QUESTIONS` with the version's folder as PYTHONPATH."""
    passages, questions = int(sys.argv[1]), int(sys.argv[2])
    with parts() as (_, settings, _):
        company = Company(embedder(settings))
        grow(settings, company, 0, -(-passages // SECTIONS))
        told = {
            "HOME": str(settings.home),
            "POSTGRES_PORT": str(settings.postgres_port),
            "QDRANT_URL": settings.qdrant_url,
            "dsn": settings.postgres_dsn,
            "token": mint(settings, EMAIL, groups(), False, timedelta(hours=2)),
            "questions": list(company.queries(questions)),
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
