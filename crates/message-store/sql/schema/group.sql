CREATE TABLE IF NOT EXISTS {database}.group_{n} (
    gid           BIGINT       NOT NULL PRIMARY KEY COMMENT 'gid mod 64 is the number of the table',
    name          VARCHAR(100) NOT NULL DEFAULT '',
    owner         BIGINT       NOT NULL DEFAULT 0,
    open          TINYINT      NOT NULL DEFAULT 0 COMMENT 'anybody may join',
    whole_history TINYINT      NOT NULL DEFAULT 0 COMMENT 'members see what was sent before they joined',
    muted         TINYINT      NOT NULL DEFAULT 0 COMMENT 'only admins and the owner send',
    dissolved     TINYINT      NOT NULL DEFAULT 0,
    member_count  BIGINT       NOT NULL DEFAULT 0,
    last_mid      BIGINT       NOT NULL DEFAULT 0 COMMENT '0: no message',
    last_ts       DATETIME(3)  NOT NULL DEFAULT '1970-01-01' COMMENT 'UTC',
    last_srcid    BIGINT       NOT NULL DEFAULT 0,
    preview       VARCHAR(200) NOT NULL DEFAULT '',
    last_chg      BIGINT       NOT NULL DEFAULT 0 COMMENT 'last change to message last_mid',
    last_state    TINYINT      NOT NULL DEFAULT 0 COMMENT 'state of message last_mid',
    chg           BIGINT       NOT NULL DEFAULT 0 COMMENT 'last change of a message',
    pos           BIGINT       NOT NULL DEFAULT -1 COMMENT 'offset in its partition of chat.events of the last event that changed the row'
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
