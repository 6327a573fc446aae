CREATE TABLE IF NOT EXISTS {database}.unresolved_read (
    sink         VARCHAR(32)      NOT NULL COMMENT 'contacts, or contacts.new of tables that are being built',
    uid          BIGINT           NOT NULL COMMENT 'the reader',
    peer         BIGINT           NOT NULL,
    device       VARCHAR(8)       NOT NULL COMMENT 'pc or mobile',
    mid          BIGINT           NOT NULL COMMENT 'the read position, whose ordinal is yet to be looked up',
    partition_no TINYINT UNSIGNED NOT NULL COMMENT 'of the conversation',
    messages_offset BIGINT           NOT NULL COMMENT 'the messages below this offset have to be stored first',
    PRIMARY KEY (sink, uid, peer, device)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
