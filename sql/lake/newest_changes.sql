-- Purpose: the current change row of each document. Relations: changes (doc_id, seq, written_at). Grain: document.
SELECT seq, written_at
FROM changes
QUALIFY row_number() OVER (PARTITION BY doc_id ORDER BY seq DESC, written_at DESC) = 1
ORDER BY seq, written_at
