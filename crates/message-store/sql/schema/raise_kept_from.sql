INSERT INTO {table} (what, kept_from) VALUES ('chat_msg', '{month}-01')
ON DUPLICATE KEY UPDATE kept_from = GREATEST(kept_from, VALUES(kept_from))
