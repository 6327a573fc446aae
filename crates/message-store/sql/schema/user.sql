CREATE TABLE IF NOT EXISTS {database}.user_{n} (
    uid    BIGINT        NOT NULL COMMENT 'whose profile it is; uid mod 64 is the number of the table',
    nick   VARCHAR(64)   NOT NULL,
    avatar VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NULL,
    extra  TEXT          NULL COMMENT 'a JSON object, as it was posted',
    ts     DATETIME(3)   NOT NULL COMMENT 'UTC',
    pos    BIGINT        NOT NULL COMMENT 'offset of its event in partition uid mod 64 of chat.events',
    PRIMARY KEY (uid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
