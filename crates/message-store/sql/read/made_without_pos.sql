-- A row from before version 4 has no pos until its next event. In a new database all versions are applied right after each other.
(pos < 0 AND (SELECT MAX(applied_at) > MIN(applied_at) + INTERVAL 1 HOUR FROM {database}.schema_version WHERE version <= 4))
