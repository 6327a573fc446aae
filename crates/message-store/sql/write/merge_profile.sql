ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right: what asks for pos comes before pos itself is assigned.
    nick   = IF(VALUES(pos) > pos, VALUES(nick), nick),
    avatar = IF(VALUES(pos) > pos, VALUES(avatar), avatar),
    extra  = IF(VALUES(pos) > pos, VALUES(extra), extra),
    ts     = IF(VALUES(pos) > pos, VALUES(ts), ts),
    pos    = GREATEST(pos, VALUES(pos))
