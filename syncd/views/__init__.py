"""What SQL users see, as data rendered into SQL. It runs no statement and imports no driver: the store does."""
