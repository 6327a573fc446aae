ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right: what asks for a mid comes before the mid itself is assigned. Of a message that nobody has changed
    -- last_chg and last_state are not given; their VALUES are the defaults.
    last_ts    = IF(VALUES(last_mid) > last_mid, VALUES(last_ts), last_ts),
    last_srcid = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(last_srcid), last_srcid),
    preview    = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(preview), preview),
    last_state = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(last_state), last_state),
    last_chg   = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(last_chg), last_chg),
    last_mid   = GREATEST(last_mid, VALUES(last_mid)),
    del_flag   = deleted_mid > 0 AND deleted_mid >= last_mid,
    peer_n     = GREATEST(peer_n, VALUES(peer_n)),
    own_n      = GREATEST(own_n, VALUES(own_n)),
    -- A higher position replaces the ordinal, even by none. An equal position can only add an ordinal that was not known.
    pc_read_n = CASE
        WHEN VALUES(pc_read_mid) > pc_read_mid THEN VALUES(pc_read_n)
        WHEN VALUES(pc_read_mid) < pc_read_mid THEN pc_read_n
        ELSE GREATEST(COALESCE(pc_read_n, VALUES(pc_read_n)), COALESCE(VALUES(pc_read_n), pc_read_n))
    END,
    pc_read_mid = GREATEST(pc_read_mid, VALUES(pc_read_mid)),
    mobile_read_n = CASE
        WHEN VALUES(mobile_read_mid) > mobile_read_mid THEN VALUES(mobile_read_n)
        WHEN VALUES(mobile_read_mid) < mobile_read_mid THEN mobile_read_n
        ELSE GREATEST(COALESCE(mobile_read_n, VALUES(mobile_read_n)), COALESCE(VALUES(mobile_read_n), mobile_read_n))
    END,
    mobile_read_mid = GREATEST(mobile_read_mid, VALUES(mobile_read_mid)),
    pos = GREATEST(pos, VALUES(pos))
