"""The HTTP API: what is going on and why, policies and wakes, savings, and the switch that pauses.

`app.make_app(site)` is the front. Nothing here is imported by the Lambda handler. The shapes of answers need
no web framework, so the command line prints the same JSON without one.
"""
