SELECT CAST(DATE_FORMAT(kept_from, '%Y-%m') AS CHAR) AS month FROM {table}
WHERE what = 'chat_msg'
