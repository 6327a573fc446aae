DELETE FROM {table}
WHERE sink = '{sink}' AND uid = {uid} AND peer = {peer} AND device = '{device}' AND mid = {mid}
    -- Locks this row and then the contact's row, and sees both as they are now: a projection writes both in one transaction.
    AND NOT EXISTS (
        SELECT 1
        FROM {contact} c
        WHERE c.uid = {uid} AND c.kind = 0 AND c.peer = {peer}
            AND c.{device}_read_mid = {mid} AND c.{device}_read_n IS NULL
        FOR UPDATE
    )
