ALTER TABLE {database}.chat_msg_{n}
    ADD COLUMN state     TINYINT     NOT NULL DEFAULT 0 COMMENT '1: recalled, 2: deleted for both; then msg is empty',
    ADD COLUMN edited_ts DATETIME(3) NULL COMMENT 'UTC'
