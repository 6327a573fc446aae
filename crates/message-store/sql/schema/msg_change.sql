CREATE TABLE IF NOT EXISTS {database}.msg_change_{n} (
    lo          BIGINT      NOT NULL COMMENT 'the smaller uid of the conversation',
    hi          BIGINT      NOT NULL COMMENT 'the larger one',
    chg         BIGINT      NOT NULL COMMENT 'number among the changes of the conversation',
    mid         BIGINT      NOT NULL,
    uid         BIGINT      NOT NULL COMMENT 'who made the change',
    change_kind VARCHAR(8)  NOT NULL COMMENT 'recall, delete, edit, hide or clear; the text of an edit is in chat_msg only',
    ts          DATETIME(3) NOT NULL COMMENT 'UTC',
    id          BIGINT      NOT NULL COMMENT 'offset in this partition of chat.events',
    PRIMARY KEY (lo, hi, chg),
    KEY inx_1 (ts)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
