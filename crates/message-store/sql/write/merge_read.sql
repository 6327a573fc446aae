ON DUPLICATE KEY UPDATE
    pcMid     = GREATEST(pcMid, VALUES(pcMid)),
    mobileMid = GREATEST(mobileMid, VALUES(mobileMid))
