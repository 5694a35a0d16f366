"""The whole product on real parts, disturbed at every seam.

    python -m tests.chaos_real --seconds 1800

A real API server with its scheduler and controllers, PostgreSQL or DynamoDB Local, EC2 and SQS by moto,
Prometheus; between each of them and the runners a network that delays, resets, cuts and halves. Runners
are killed and frozen, and some of them run an older version. What must never happen is judged where the
calls arrive, past that network.
"""
