"""Mutation testing by tool: every small change of the modules that guard something, one at a time.

    python -m tests.mutation --sample 300            a sample of all modules
    python -m tests.mutation --each 60               60 of each group of modules
    python -m tests.mutation --module core.nodes     all mutants of the modules whose names begin so

First the tests run once, and the lines that each reaches are written to `build/mutation/reach.json`. That is
done again for the tests whose file, or a module that they reach, has changed (`--record`: for all). Then a
process that has imported everything forks once for each mutant, puts the changed code into the functions
that are already there, and runs the tests that reach the changed line, the quickest first, until one fails.

Why none of the known tools: `cosmic-ray` starts a process for each mutant, and importing Ebbtide with its
libraries takes longer than most of the tests that a mutant needs. `mutmut` forks too, but it leaves out
functions with decorators (routes, properties, context managers), chooses tests by function instead of by
line, and writes a changed copy of the whole project.

A mutant that no test can tell from the original is listed in `equivalent.py`, with the reason. It is named by
its function and by the text of the statement before and after the change, so code can move.

Only code in functions is changed. Constants of modules, defaults of arguments and class bodies are not: they
are evaluated at import, and a fork comes after it. Neither are texts for people.
"""
