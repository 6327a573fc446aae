CREATE TABLE IF NOT EXISTS {database}.device_{n} (
    uid     BIGINT        NOT NULL COMMENT 'whose device it is; uid mod 64 is the number of the table',
    device  VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'its own id',
    class   TINYINT       NOT NULL COMMENT '1: pc, 2: mobile',
    name    VARCHAR(64)   NOT NULL,
    token   VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'how far it has followed chat.events',
    seen_at DATETIME(3)   NOT NULL COMMENT 'UTC',
    PRIMARY KEY (uid, device),
    KEY inx_1 (seen_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
