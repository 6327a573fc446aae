-- Transactions under READ COMMITTED keep no snapshot: each statement sees what is there when it begins. Writers that wait for the fence are such.
SELECT CAST(trx_mysql_thread_id AS SIGNED) AS thread, CAST(trx_started AS CHAR) AS started
FROM information_schema.INNODB_TRX
WHERE trx_isolation_level <> 'READ COMMITTED' AND trx_mysql_thread_id <> CONNECTION_ID()
