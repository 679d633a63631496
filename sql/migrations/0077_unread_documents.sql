-- Documents whose bytes could not be read at the last try. A source with a feed of changes does not show them again by itself (`unread`).

CREATE INDEX documents_unread ON documents (source, partition) WHERE stage = 'raw' AND state IN ('live', 'failed');
