"""The kind of a reason for which a document is not indexed.

Reasons are sentences for people who may see the document: some quote its name, its path or its text. Logs, Dagster and auditors get the
kind instead. It is derived from the fixed part of the sentence, so that it also exists for reasons that were stored long ago.
"""

from resources.core.kinds import Kinds

_PATTERNS = {
    "permissions": r"sidecar|holds a private key|It has no ",
    "unsupported": r"not supported|not a PDF|is not an email|is not a readable Outlook|not a message that Outlook|not a conversation|"
    r"but not a|does not match its extension|has no extension|Slack keeps it as|not a page|not a notebook|which is not loaded",
    "encrypted": r"encrypted|password|\(DRM\)",
    "too_large": r"too large|larger than|more than [\d,]+|million pixels|longer than \d+ bytes|at most [\d,]+|times its size|"
    r"MB of memory|nested too deeply",
    "too_slow": r"took longer than",
    "empty": r"is empty|holds no text|holds binary data|fewer than \d+ words|contain no text|holds no files",
    "damaged": r"damaged|cannot be decoded|could not be read as|parser (crashed|was killed)|missing from|has other contents|"
    r"could not be read|cannot be stored|no outcome",
    "no_access": r"[Pp]ermission denied|not allow it|link to an unknown address|"
    r"may not do this|does not share|the scope|hides it|not shared with|no longer lets us",
    "elsewhere": r"is a link|stored outside|not stored at Slack|leads out of|provides no URL|not a file|redirects too|no longer in "
    r"CONCORDANCE_FILE_ROOTS|UTF-8; rename|contains a NUL",
    "changed": r"no longer|being written|not in the blob store|was removed|was deleted|changed while",
    "unavailable": r"temporarily|slow down|does not answer|stopped answering|HTTP \d{3}|cannot embed|cannot be (listed|accessed|read)",
    "waiting": r"were kept|listed from the beginning|indexed again|were indexed before",
}
_KINDS = Kinds(_PATTERNS)
KINDS, kind_of = _KINDS.names, _KINDS.of
