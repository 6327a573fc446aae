DELETE FROM {table} WHERE id >= {from} AND id < {to} AND {condition}
