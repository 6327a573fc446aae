CREATE TABLE IF NOT EXISTS {database}.retention (
    what      VARCHAR(32) NOT NULL PRIMARY KEY,
    kept_from DATE        NOT NULL COMMENT 'months before this one were dropped, and are not written again'
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
