"""The whole product against a simulated cluster, on both databases: what users were promised."""
