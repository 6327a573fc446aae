ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right. VALUES(pos) is the offset of the flags, −1 without any; the statement that follows raises pos further.
    favourite = IF(VALUES(pos) > pos, VALUES(favourite), favourite),
    pinned    = IF(VALUES(pos) > pos, VALUES(pinned), pinned),
    muted     = IF(VALUES(pos) > pos, VALUES(muted), muted),
    blocked   = IF(VALUES(pos) > pos, VALUES(blocked), blocked),
    pos       = GREATEST(pos, VALUES(pos)),
    chg         = GREATEST(chg, VALUES(chg)),
    own_pos     = GREATEST(own_pos, VALUES(own_pos)),
    deleted_mid = GREATEST(deleted_mid, VALUES(deleted_mid)),
    clear_mid   = GREATEST(clear_mid, VALUES(clear_mid))
