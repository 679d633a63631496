-- The documents of a source that were changed last, for the examples of the start page.
CREATE INDEX documents_latest ON documents (source, modified_at DESC NULLS LAST) WHERE state = 'live';
