ALTER TABLE {database}.msg_change_{n}
    ADD COLUMN seen_by BIGINT GENERATED ALWAYS AS (IF(change_kind IN ('hide', 'clear'), uid, 0)) STORED COMMENT 'who alone learns of the change; 0: both sides, or all members',
    ADD KEY inx_2 (seen_by, lo, hi, chg)
