ALTER TABLE {database}.resume_offset ADD COLUMN forgotten_below BIGINT NOT NULL DEFAULT 0 COMMENT 'of who left a group below it rows may be deleted'
