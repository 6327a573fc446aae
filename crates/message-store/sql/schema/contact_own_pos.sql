ALTER TABLE {database}.contact_{n}
    ADD COLUMN own_pos BIGINT NOT NULL DEFAULT 0 COMMENT 'offset of the event by which uid hid a message or cleared the history last, of those without a chg'
