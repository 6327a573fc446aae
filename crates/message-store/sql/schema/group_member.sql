CREATE TABLE IF NOT EXISTS {database}.group_member_{n} (
    gid      BIGINT  NOT NULL COMMENT 'gid mod 64 is the number of the table',
    uid      BIGINT  NOT NULL,
    role     TINYINT NOT NULL COMMENT '1: member, 2: admin, 3: owner, 0: no member any more',
    muted    TINYINT NOT NULL,
    join_mid BIGINT  NOT NULL COMMENT 'newest message when uid joined last',
    pos      BIGINT  NOT NULL COMMENT 'offset in this partition of chat.events of the last event that names uid',
    PRIMARY KEY (gid, uid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
