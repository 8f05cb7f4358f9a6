"""The verification page: one file that needs no server and sends nothing anywhere."""
