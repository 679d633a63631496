"""The commands: their help, how the overview arranges them, and examples. A module is imported only when one of its commands is needed."""

from cyclopts import Group

COMMANDS = {
    "installation": {
        "up": "Start all services on this machine and keep them running until Ctrl-C or `concordance down`.",
        "restart": "Apply changed settings and updated code: stop all services in order and start them again. Starts Concordance if it "
        "is stopped, unless HOME does not exist.",
        "down": "Stop all services that `up` started, also those that a killed `up` left running.",
        "doctor": "Check everything that Concordance depends on, and suggest a remedy for each fault.",
        "demo": "Index a sample company and ask questions as two of its people, with the running services or its own.",
    },
    "processes": {
        "serve": "Run the service that people and programs ask, alone and in one process.",
        "webserver": "Run Dagster's webserver alone.",
        "daemon": "Run Dagster's daemon alone: schedules, sensors, run queue and run monitoring.",
        "code": "Run the code server alone, which webserver and daemon reach over TCP.",
        "workers": "Keep warm processes for runs, beside a webserver and a daemon with the same HOME.",
        "run": "Execute one run of Dagster in this process, as a run launcher starts it.",
        "migrate": "Bring the database to the schema of this version. Run it once before the other processes of a new version.",
    },
    "service": {
        "service install": "Write a systemd unit that runs `up` at each boot, as an account without rights.",
    },
    "status": {
        "status": "Show the services, their URLs, running syncs with their progress, and the documents of each source.",
    },
    "simulate": {
        "simulate drive": "Serve a simulated Google Drive until Ctrl-C, and print the settings to use it.",
        "simulate slack": "Serve a simulated Slack workspace until Ctrl-C, and print the settings to use it.",
    },
    "syncing": {
        "sync": "Bring the index up to date with a source: google_drive, slack, upload, push or files; or people and groups: "
        "directory.",
    },
    "people": {
        "whoami": "Show a person's principals and where each comes from, as each request sees them.",
    },
    "sources": {
        "source list": "List roots, drives, channels and pushed sources: documents, state and last sync.",
        "source remove": "Remove the documents of a root, drive or channel that has left the settings, of a pushed source, or the sample "
        "company.",
    },
    "upkeep": {
        "reconcile": "List the sources completely and compare them with lake, Postgres and Qdrant in both directions.",
        "prune list": "List held mass deletions, which await approval.",
        "prune approve": "Approve pending deletions, and start the sync that removes the documents if Concordance is running.",
        "prune reject": "Reject pending deletions: the documents are kept until the source reports the deletion again.",
        "audit run": "Compare permissions in the index with the sources' now, revoke excess grants and add missing ones.",
        "audit grants": "List permissions that were granted or revoked, and when each took effect.",
    },
    "models": {
        "model add": "Copy an embedding model or reranker into HOME, try it, and show its speed and gain. Nothing is switched.",
    },
    "reindexing": {
        "reindex": "Preview what the next syncs index again; or build an index with another embedding model, compare both, and switch.",
        "cleanup": "Drop indexes that no search uses: those replaced by a reindex and, with --unfinished, an unfinished one.",
    },
    "backing_up": {
        "backup": "Back up Postgres, the lake and the keys to a folder or an object store. Searches and syncs continue.",
        "restore": "Restore HOME from a backup. HOME must contain no data, except for keys.json if the backup has none.",
    },
    "rebuilding": {
        "rebuild registry": "After the loss of Postgres: write to an empty one what the lake holds of documents, uploads and pushes.",
    },
    "erasing": {
        "erase": "Erase documents whose grace period (CONCORDANCE_RETENTION__ERASE_AFTER) is over, and answers that quote them. No undo.",
        "receipts": "List deletions: when the source reported them, and the result of the check of each store.",
    },
    "querying": {
        "search": "Search as a person and print passages with their sources.",
        "saved": "List the searches that a person has saved, or run one of them.",
        "ask": "Ask a question as a person and print the answer with its sources.",
    },
    "why": {
        "why": "Explain why a person does not find a document: its state, stages, permission and rank.",
    },
    "evaluating": {
        "eval": "Measure search quality and latency of dense, keyword and hybrid search on a test collection.",
    },
    "questions": {
        "questions add": "Add a question to the question set, or change its documents.",
        "questions import": "Add all questions of a file; if one is invalid, none is added.",
        "questions list": "List the questions: their user, the documents to find or not to find, and which are proposed.",
        "questions accept": "Accept questions proposed by feedback.",
        "questions remove": "Remove questions, accepted or proposed.",
        "questions run": "Run the questions now: recall and leaks by user. Exit status 1: a leak, or recall below the floor.",
    },
    "access": {
        "token": "Print an access token for a person, and nothing else.",
        "sign-in": "Print a link that signs a person in with a browser, once and within ten minutes.",
        "session list": "List the browsers in which people are signed in, of everyone or of one person.",
        "session end": "Sign one browser out, by the id that `session list` shows, or all browsers of a person.",
        "key create": "Create an API key and print it. It cannot be shown again.",
        "key list": "List API keys: user, groups, creation and expiry. The keys themselves are not stored.",
        "key revoke": "Revoke an API key immediately.",
    },
    "connect": {
        "connect google": "Print the URL at which a person permits Concordance to read a Google Drive. It is valid for ten minutes.",
        "connect list": "List the Google accounts that Drive is read with.",
        "connect remove": "Stop reading Drive with an account, and forget its token.",
    },
}
"""Commands with their help, by module."""
APPS = ("token",)
"""Commands that also have commands below them, which their module defines."""

RUN, SEARCH, SOURCES, QUALITY, ACCESS, UPKEEP, PROCESSES = (
    Group(name, sort_key=number)
    for number, name in enumerate(("Run", "Search", "Sources", "Quality", "Access", "Upkeep", "Processes"))
)
ARRANGED = {
    RUN: ("up", "restart", "down", "status", "doctor", "demo"),
    SEARCH: ("search", "saved", "ask", "why"),
    SOURCES: ("sync", "source", "connect", "simulate", "prune"),
    QUALITY: ("eval", "questions", "model", "reindex", "cleanup"),
    ACCESS: ("sign-in", "token", "session", "key", "whoami", "audit"),
    UPKEEP: ("reconcile", "erase", "receipts", "backup", "restore", "rebuild"),
    PROCESSES: ("serve", "webserver", "daemon", "code", "workers", "run", "migrate", "service"),
}
"""Every command and group of commands of the overview."""
EXAMPLES = {
    "": (
        "concordance up --sample",
        "concordance sync files --wait",
        'concordance search "parental leave" --as ann@acme.com',
    ),
    "up": ("concordance up --sample", "concordance up --detach"),
    "status": ("concordance status", "concordance status --urls"),
    "search": (
        'concordance search "parental leave" --as ann@acme.com',
        'concordance search "error 1042" --as ann@acme.com --mode keyword --top-k 10',
    ),
    "ask": (
        'concordance ask "How long is parental leave?" --as ann@acme.com',
        'concordance ask "How long is parental leave?" --as ann@acme.com --show-prompt',
    ),
    "why": ('concordance why handbook/leave.md --as ann@acme.com --query "parental leave"',),
    "sync": ("concordance sync files --wait", "concordance sync google_drive --partition my_drive --full"),
    "source remove": ("concordance source remove handbook", "concordance source remove --sample --yes"),
    "prune approve": ("concordance prune approve files handbook",),
    "sign-in": ("concordance sign-in ann@acme.com", "concordance sign-in ann@acme.com --administrator"),
    "token": ("concordance token ann@acme.com --group eng@acme.com --expires 12h",),
    "whoami": ("concordance whoami ann@acme.com",),
    "key create": ("concordance key create bot@acme.com",),
    "questions add": (
        'concordance questions add "How long is parental leave?" --document handbook/leave.md --as ann@acme.com',
    ),
    "eval": ("concordance eval data/scifact --json",),
    "model add": (
        "concordance model add BAAI/bge-small-en-v1.5",
        "concordance model add /srv/models/ms-marco-MiniLM-L6-v2",
    ),
    "reindex": (
        "concordance reindex",
        "concordance reindex --full",
        "concordance reindex --model text-embedding-3-small --yes",
    ),
    "reconcile": ("concordance reconcile", "concordance reconcile files --apply"),
    "backup": ("concordance backup /srv/backup/monday", "concordance backup s3://bucket/concordance"),
    "serve": ("concordance serve --host 0.0.0.0 --port 8080 --drain 5",),
    "service install": ("concordance service install --show",),
    "code": ("concordance code --host 0.0.0.0 --port 4000",),
    "migrate": ("concordance migrate", "concordance migrate --wait 300"),
}
"""By command; the first are those of the overview."""
EXIT = "Exit status: 0 done, 1 failed or found faults, 2 wrong usage, 3 not running. Settings: docs/configuration.md."


def arranged(name: str) -> Group:
    """Return the group of the overview that a command belongs to."""
    return next(group for group, names in ARRANGED.items() if name in names)


def epilogue(command: str) -> str:
    """Return the end of a command's help: examples, if it has any, and the exit status."""
    lines = [f"  {line}" for line in EXAMPLES.get(command, ())]
    return "\n".join([*(["Examples:", *lines, ""] if lines else []), EXIT])
