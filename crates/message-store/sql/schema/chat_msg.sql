CREATE TABLE IF NOT EXISTS {database}.chat_msg_{n} (
    id            BIGINT      NOT NULL COMMENT 'offset in this partition of chat.events',
    srcid         BIGINT      NOT NULL,
    destid        BIGINT      NOT NULL,
    mid           BIGINT      NOT NULL,
    msg           TEXT        NOT NULL,
    ts            DATETIME(3) NOT NULL COMMENT 'UTC',
    hashvalue     TINYINT     NOT NULL COMMENT '(srcid + destid) mod 64',
    client_msg_id VARCHAR(64) NOT NULL,
    n             BIGINT      NOT NULL COMMENT 'number among the messages of srcid in this conversation',
    PRIMARY KEY (id, ts),
    KEY inx_1 (srcid, destid, mid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE COLUMNS (ts) ({months})
