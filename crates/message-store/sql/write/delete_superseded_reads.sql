DELETE FROM {table}
WHERE sink = '{sink}' AND device = '{device}' AND EXISTS (
    SELECT 1
    FROM {contact} c
    WHERE c.uid = {table}.uid AND c.kind = 0 AND c.peer = {table}.peer
      AND (c.{device}_read_mid > {table}.mid OR c.{device}_read_n IS NOT NULL)
)
