"""An executable specification: what the requirements say about whether something may happen.

A second, deliberately simple implementation, written from the five documents and their settled rows. It
imports nothing from `ebbtide.core`; `translate` builds its inputs. Each rule is one function that names the
row or section it comes from, and answers yes, no or, where the documents are silent, either.

    python -m tests.oracle                  # as with every push: compare, and print the table of rules
    python -m tests.oracle --fast --times 100      # as `make torture` does: by a plain generator
"""
