ON DUPLICATE KEY UPDATE
    -- Assignments run from left to right: what asks for last_mid and last_chg comes before these. A change to a message does not say who
    -- sent it, nor when: both stay.
    last_ts    = IF(VALUES(last_mid) > last_mid, VALUES(last_ts), last_ts),
    last_srcid = IF(VALUES(last_mid) > last_mid, VALUES(last_srcid), last_srcid),
    preview    = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(preview), preview),
    last_state = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(last_state), last_state),
    last_chg   = IF(VALUES(last_mid) > last_mid OR (VALUES(last_mid) = last_mid AND VALUES(last_chg) > last_chg), VALUES(last_chg), last_chg),
    last_mid   = GREATEST(last_mid, VALUES(last_mid)),
    chg        = GREATEST(chg, VALUES(chg)),
    pos        = GREATEST(pos, VALUES(pos))
