"""Sites, zones, miners and collectors: the inventory that commands refer to."""
