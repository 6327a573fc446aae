CREATE TABLE IF NOT EXISTS {database}.hidden_{n} (
    uid  BIGINT  NOT NULL COMMENT 'who does not see the message; uid mod 64 is the number of the table',
    kind TINYINT NOT NULL DEFAULT 0 COMMENT '0: peer is a user',
    peer BIGINT  NOT NULL,
    mid  BIGINT  NOT NULL,
    PRIMARY KEY (uid, kind, peer, mid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
