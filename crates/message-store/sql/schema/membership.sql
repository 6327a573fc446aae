CREATE TABLE IF NOT EXISTS {database}.membership_{n} (
    uid             BIGINT NOT NULL COMMENT 'uid mod 64 is the number of the table',
    gid             BIGINT NOT NULL,
    join_pos        BIGINT NOT NULL DEFAULT -1 COMMENT 'offset in its partition of chat.events of the event by which uid joined last',
    left_pos        BIGINT NOT NULL DEFAULT -1 COMMENT 'the same of leaving last; a member is whose join_pos is above it',
    join_mid        BIGINT NOT NULL DEFAULT 0 COMMENT 'newest message when uid joined last',
    own_last_mid    BIGINT NOT NULL DEFAULT 0,
    pc_read_mid     BIGINT NOT NULL DEFAULT 0,
    mobile_read_mid BIGINT NOT NULL DEFAULT 0,
    clear_mid       BIGINT NOT NULL DEFAULT 0 COMMENT 'uid sees the messages above it only',
    pos             BIGINT NOT NULL DEFAULT -1 COMMENT 'offset of the last event that changed the row',
    PRIMARY KEY (uid, gid)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
