CREATE TABLE IF NOT EXISTS {database}.schema_version (
    version    INT         NOT NULL PRIMARY KEY,
    name       VARCHAR(64) NOT NULL,
    applied_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
