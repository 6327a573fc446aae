ALTER TABLE {database}.contact_{n}
    ADD COLUMN chg         BIGINT  NOT NULL DEFAULT 0 COMMENT 'last change of the conversation',
    ADD COLUMN pos         BIGINT  NOT NULL DEFAULT -1 COMMENT 'offset in its partition of chat.events of the last event that changed the row',
    ADD COLUMN last_chg    BIGINT  NOT NULL DEFAULT 0 COMMENT 'last change to message last_mid',
    ADD COLUMN last_state  TINYINT NOT NULL DEFAULT 0 COMMENT 'state of message last_mid',
    ADD COLUMN pinned      TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN muted       TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN blocked     TINYINT NOT NULL DEFAULT 0 COMMENT 'peer cannot send to uid',
    ADD COLUMN deleted_mid BIGINT  NOT NULL DEFAULT 0 COMMENT 'last_mid when uid deleted the contact; a later message brings it back',
    ADD COLUMN clear_mid   BIGINT  NOT NULL DEFAULT 0 COMMENT 'uid sees the messages above it only'
