CREATE TABLE IF NOT EXISTS {database}.group_msg_{n} (
    id            BIGINT      NOT NULL COMMENT 'offset in this partition of chat.events',
    gid           BIGINT      NOT NULL COMMENT 'gid mod 64 is the number of the table',
    mid           BIGINT      NOT NULL,
    srcid         BIGINT      NOT NULL,
    msg           TEXT        NOT NULL,
    ts            DATETIME(3) NOT NULL COMMENT 'UTC',
    client_msg_id VARCHAR(64) NOT NULL,
    state         TINYINT     NOT NULL DEFAULT 0 COMMENT '1: recalled, 2: deleted for everybody; then msg is empty',
    edited_ts     DATETIME(3) NULL COMMENT 'UTC',
    PRIMARY KEY (id, ts),
    KEY inx_1 (gid, mid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE COLUMNS (ts) ({months})
