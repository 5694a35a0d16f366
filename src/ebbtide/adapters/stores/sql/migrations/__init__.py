"""Alembic's migrations of the SQL stores. They add; an older Ebbtide must live with a newer schema."""
