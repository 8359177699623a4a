"""Keys and certificates of devices, without the database: X.509, encryption of private keys, names and options."""
