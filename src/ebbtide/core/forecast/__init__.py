"""What demand to expect: profiles of days and weeks, combined by how wrong each was, with measured quantiles.

Needs numpy, which comes with the extra `foresight`.
"""
