SELECT TABLE_NAME AS table_name FROM information_schema.TABLES
WHERE TABLE_SCHEMA = ?
