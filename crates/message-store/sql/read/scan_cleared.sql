SELECT h.uid, CAST(h.kind AS SIGNED) AS kind, h.peer, h.mid,
    h.mid <= COALESCE(CASE h.kind WHEN 0 THEN c.clear_mid WHEN 1 THEN m.clear_mid END, 0) AS is_cleared
FROM {table} AS h
LEFT JOIN {contacts} AS c ON h.kind = 0 AND c.uid = h.uid AND c.kind = 0 AND c.peer = h.peer
LEFT JOIN {memberships} AS m ON h.kind = 1 AND m.uid = h.uid AND m.gid = h.peer
WHERE (h.uid = {uid} AND h.kind = {kind} AND h.peer = {peer} AND h.mid > {mid})
    OR (h.uid = {uid} AND h.kind = {kind} AND h.peer > {peer}) OR (h.uid = {uid} AND h.kind > {kind}) OR h.uid > {uid}
ORDER BY h.uid, h.kind, h.peer, h.mid LIMIT {limit}
