ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right.
    role     = IF(VALUES(pos) > pos, VALUES(role), role),
    muted    = IF(VALUES(pos) > pos, VALUES(muted), muted),
    join_mid = GREATEST(join_mid, VALUES(join_mid)),
    pos      = GREATEST(pos, VALUES(pos))
