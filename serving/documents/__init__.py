"""Documents: reading and listing them, receiving uploads, pushed and ingested ones, changing and erasing one's own.

The room offers `Documents`; what it receives is indexed by a sync that `Sources` starts.
"""
