"""Documents: reading and listing them, receiving uploads, pushed and ingested ones, changing and erasing one's own.

The room offers `DocumentServices`; what it receives is indexed by a sync that `SourceServices` starts.
"""
