"""Command line of the embedded vector server: `python -m resources.servers.vector`."""

import argparse
import sys
from pathlib import Path

# Below this, scanning the uncompacted vectors takes 2 to 3 ms, about as long as any alternative.
COMPACT_FROM = 20_000
# Below this, scanning all int8 vectors of a quantized collection is as fast as a graph, and exact.
GRAPH_FROM = 200_000
FLUSH_SECONDS = 5.0


def main() -> int:
    """Parse the arguments and serve; return 1 with a message if the folder or the port is in use."""
    parser = argparse.ArgumentParser(
        prog="python -m resources.servers.vector", description="Embedded vector server, speaks Qdrant's REST."
    )
    parser.add_argument(
        "--path", type=Path, required=True, help="folder of the collections; used by one process at a time"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 picks a free one, named in the start line")
    parser.add_argument(
        "--compact-from",
        type=int,
        default=COMPACT_FROM,
        help="number of points from which a collection is compacted automatically, 0: never",
    )
    parser.add_argument(
        "--graph-from",
        type=int,
        default=GRAPH_FROM,
        help="number of points from which the compaction of a quantized collection builds an HNSW graph",
    )
    parser.add_argument(
        "--flush-seconds", type=float, default=FLUSH_SECONDS, help="seconds between flushes of pending writes"
    )
    arguments = parser.parse_args()

    from resources.servers.vector.files import FolderError
    from resources.servers.vector.process import run

    try:
        run(
            arguments.path,
            arguments.host,
            arguments.port,
            compact_from=arguments.compact_from,
            graph_from=arguments.graph_from,
            flush_seconds=arguments.flush_seconds,
        )
    except FolderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(
            f"cannot serve on {arguments.host}:{arguments.port}: {error.strerror}. Free the port or give another --port.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
