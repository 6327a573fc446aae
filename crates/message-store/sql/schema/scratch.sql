CREATE TABLE IF NOT EXISTS {table} (
    id          TINYINT     NOT NULL PRIMARY KEY,
    as_of       DATETIME(3) NOT NULL,
    slice       VARCHAR(64) NULL COMMENT 'from where; NULL: from the beginning',
    is_complete BOOLEAN     NOT NULL
) ENGINE = InnoDB
