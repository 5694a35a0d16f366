"""The command line: `ebbtide`. Errors become one message on stderr, and an exit code.

Exit codes: 0 done; 1 it did not work out; 2 wrong input of a person, nothing touched.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from ebbtide.errors import Conflict, EbbtideError, LeaseLost, NewerRecord, Retryable, Unanswered, Usage
from ebbtide.redact import redact

WHAT_NOW: tuple[tuple[type[EbbtideError], str], ...] = (
    (LeaseLost, "This command did nothing. `ebbtide status` shows which runner is active; try again later."),
    (Conflict, "Somebody else changed the record first, and this command changed nothing. Try again."),
    (Retryable, "That call was not carried out. Trying again later may work; the record says what is open."),
    (
        Unanswered,
        "It may have been carried out. The next tick checks again; `ebbtide status` shows what is open.",
    ),
)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    from ebbtide.entrypoints.cli.app import app

    try:
        app(arguments, prog_name="ebbtide")
    except EbbtideError as error:
        if debug:
            _fail(traceback.format_exc(), 1)
        _fail(_message(error), 2 if isinstance(error, Usage | NewerRecord) else 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debug:
            _fail(traceback.format_exc(), 1)
        _fail(
            f"this should not have happened: {type(error).__name__}: {error}\n"
            "What was done so far is in the record, and the next run continues from there. "
            "Run the command again with --debug to see where it happened, and report it.",
            1,
        )


def _message(error: EbbtideError) -> str:
    hint = next((text for kind, text in WHAT_NOW if isinstance(error, kind)), "")
    return f"{error}\n{hint}" if hint else str(error)


def _fail(message: str, code: int) -> None:
    print(redact(f"ebbtide: {message}"), file=sys.stderr)
    sys.exit(code)
