CREATE TABLE IF NOT EXISTS {database}.contact_{n} (
    uid             BIGINT       NOT NULL COMMENT 'whose row it is; uid mod 64 is the number of the table',
    kind            TINYINT      NOT NULL DEFAULT 0 COMMENT '0: peer is a user',
    peer            BIGINT       NOT NULL,
    last_mid        BIGINT       NOT NULL DEFAULT 0 COMMENT '0: no message',
    last_ts         DATETIME(3)  NOT NULL DEFAULT '1970-01-01' COMMENT 'UTC',
    last_srcid      BIGINT       NOT NULL DEFAULT 0,
    preview         VARCHAR(200) NOT NULL DEFAULT '',
    peer_n          BIGINT       NOT NULL DEFAULT 0 COMMENT 'n of the newest message of peer',
    own_n           BIGINT       NOT NULL DEFAULT 0 COMMENT 'n of the newest message of uid',
    pc_read_mid     BIGINT       NOT NULL DEFAULT 0,
    pc_read_n       BIGINT       NULL     DEFAULT 0 COMMENT 'n of peer at pc_read_mid; NULL: unknown',
    mobile_read_mid BIGINT       NOT NULL DEFAULT 0,
    mobile_read_n   BIGINT       NULL     DEFAULT 0 COMMENT 'n of peer at mobile_read_mid; NULL: unknown',
    del_flag        TINYINT      NOT NULL DEFAULT 0,
    favourite       TINYINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (uid, kind, peer),
    KEY inx_1 (uid, last_ts, peer)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
