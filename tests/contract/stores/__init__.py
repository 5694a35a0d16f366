"""One contract for every store: memory, SQLite, PostgreSQL and DynamoDB, with no skip for any."""
