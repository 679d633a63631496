-- Queries are read in the languages of the corpus, which the service looks up every second, one after another.
CREATE INDEX documents_language ON documents (language) WHERE state = 'live';
