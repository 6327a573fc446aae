ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right. VALUES(pos) is the offset of the settings; the statement that follows raises pos further.
    name          = IF(VALUES(pos) > pos, VALUES(name), name),
    owner         = IF(VALUES(pos) > pos, VALUES(owner), owner),
    open          = IF(VALUES(pos) > pos, VALUES(open), open),
    whole_history = IF(VALUES(pos) > pos, VALUES(whole_history), whole_history),
    muted         = IF(VALUES(pos) > pos, VALUES(muted), muted),
    dissolved     = IF(VALUES(pos) > pos, VALUES(dissolved), dissolved),
    member_count  = IF(VALUES(pos) > pos, VALUES(member_count), member_count),
    pos           = GREATEST(pos, VALUES(pos))
