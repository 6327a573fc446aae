SELECT columns.COLUMN_NAME AS name, CAST(columns.DATA_TYPE IN ('varchar', 'text') AS SIGNED) AS is_text,
    CAST(keys_of.SEQ_IN_INDEX IS NOT NULL AS SIGNED) AS is_key
FROM information_schema.COLUMNS AS columns
LEFT JOIN information_schema.STATISTICS AS keys_of
    ON keys_of.TABLE_SCHEMA = columns.TABLE_SCHEMA AND keys_of.TABLE_NAME = columns.TABLE_NAME
    AND keys_of.COLUMN_NAME = columns.COLUMN_NAME AND keys_of.INDEX_NAME = ?
WHERE columns.TABLE_SCHEMA = ? AND columns.TABLE_NAME = ?
ORDER BY keys_of.SEQ_IN_INDEX, columns.ORDINAL_POSITION
