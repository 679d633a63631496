-- Those of the wanted ids that are folders below a root. Parameters: source, wanted. Grain: folder. Index: documents_collections.
SELECT w.folder
FROM unnest(%(wanted)s::text []) AS w (folder)
WHERE
    EXISTS (
        SELECT FROM documents AS d
        WHERE d.source = %(source)s AND d.collection_ids @> ARRAY[w.folder] AND d.state <> 'deleted'
    );
