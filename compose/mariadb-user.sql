-- The services come from other containers, so the user may come from any address.
CREATE USER IF NOT EXISTS 'tidemark'@'%' IDENTIFIED BY 'tidemark';
GRANT ALL PRIVILEGES ON *.* TO 'tidemark'@'%' WITH GRANT OPTION;
