ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right: what asks for seen_at comes before it is assigned.
    class   = IF(VALUES(seen_at) > seen_at, VALUES(class), class),
    name    = IF(VALUES(seen_at) > seen_at, VALUES(name), name),
    token   = IF(VALUES(seen_at) > seen_at, VALUES(token), token),
    seen_at = GREATEST(seen_at, VALUES(seen_at))
