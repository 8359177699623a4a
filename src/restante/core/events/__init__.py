"""Pure decisions of event polling and push: no I/O, no SQL, no clock."""
