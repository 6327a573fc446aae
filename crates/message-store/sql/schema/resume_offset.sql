CREATE TABLE IF NOT EXISTS {database}.resume_offset (
    sink         VARCHAR(32)      NOT NULL,
    topic        VARCHAR(249)     NOT NULL,
    partition_no TINYINT UNSIGNED NOT NULL,
    next_offset  BIGINT           NOT NULL,
    src_epoch    INT UNSIGNED     NOT NULL,
    src_offset   BIGINT           NOT NULL COMMENT '-1: before the first',
    PRIMARY KEY (sink, topic, partition_no)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
