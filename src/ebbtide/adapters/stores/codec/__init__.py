"""The record, operations, policies and log entries as stored items, and back. Shared by all stores."""
