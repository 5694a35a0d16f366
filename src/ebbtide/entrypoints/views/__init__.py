"""Values as people and programs read them, shared by the command line, the API and the report."""
