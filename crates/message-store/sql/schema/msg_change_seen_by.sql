ALTER TABLE {database}.msg_change_{n}
    MODIFY COLUMN chg BIGINT NOT NULL COMMENT 'number among the changes of the conversation; of what only its author learns of and has none: -id',
    ADD COLUMN seen_by BIGINT GENERATED ALWAYS AS (IF(change_kind IN ('hide', 'clear'), uid, 0)) STORED COMMENT 'who alone learns of the change; 0: both sides, or all members',
    ADD KEY inx_2 (seen_by, lo, hi, chg)
