CREATE TABLE IF NOT EXISTS {database}.read_chat_mid_{n} (
    id        BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uid       BIGINT      NOT NULL,
    sessionId VARCHAR(45) NOT NULL COMMENT 'smaller uid, comma, larger uid',
    pcMid     BIGINT      NOT NULL DEFAULT 0,
    mobileMid BIGINT      NOT NULL DEFAULT 0,
    hashvalue TINYINT     NOT NULL COMMENT 'sum of the uids mod 64',
    ts        DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
    UNIQUE KEY inx_2 (uid, sessionId)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
