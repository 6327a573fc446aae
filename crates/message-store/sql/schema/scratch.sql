CREATE TABLE IF NOT EXISTS {table} (
    id          TINYINT     NOT NULL PRIMARY KEY,
    as_of       DATETIME(3) NOT NULL,
    is_complete BOOLEAN     NOT NULL
) ENGINE = InnoDB
