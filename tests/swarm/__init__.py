"""Many small random clusters, each with random workloads, policies and faults, checked all the way.

    python -m tests.swarm --seeds 1000            # seeds 1 to 1000
    python -m tests.swarm --seed 417 --tell       # one of them again, told tick by tick

Timers are short, so an hour shows what takes a day elsewhere. The last part of every run is calm: by its
end all must be well.
"""
