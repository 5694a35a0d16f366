"""Wake on request: accept the first connection of a sleeping Service, wake its policy, hold the connection,
and pass it on to a pod that is ready.

A process of its own on asyncio. It knows no store, cluster or API: its starter hands in what a port
stands for (`Routes`), which pods are ready (`Backends`) and how to wake (`Wake`). It keeps no state that
matters: a gate that dies loses only the connections that it held.
"""
