DELETE FROM {table}
WHERE sink = '{sink}' AND (device NOT IN ('pc', 'mobile') OR uid < 1 OR uid MOD 64 NOT IN ({numbers}))
