SELECT what, CAST(DATE_FORMAT(kept_from, '%Y-%m') AS CHAR) AS month, CAST(DAY(kept_from) AS UNSIGNED) AS day FROM {table}
