"""`python -m ebbtide`: the same as `ebbtide`."""

from __future__ import annotations

from ebbtide.entrypoints.cli import main

if __name__ == "__main__":
    main()
