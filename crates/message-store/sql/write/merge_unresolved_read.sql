ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right: what asks for the mid comes before the mid itself is assigned.
    messages_offset = IF(VALUES(mid) > mid, VALUES(messages_offset), messages_offset),
    mid          = GREATEST(mid, VALUES(mid))
