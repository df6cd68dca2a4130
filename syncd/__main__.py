"""`python -m syncd`, and the `syncd` command."""

import gc
import os
import sys

gc.disable()  # until a command begins: imports leave no garbage, and looking for it is a twentieth of them

FAILED = 1
INTERRUPTED = 130  # as a shell counts it, and as typer ends between here and a command's own work


def main() -> None:
    """The console script. Imports inside: they take most of a short command's time, in which Ctrl-C is pressed
    as at any other.
    """
    try:
        from syncd.cli.main import app

        try:
            app()
        finally:
            print(end="", flush=True)  # here, where a full disk can still be told
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # drivers' own are translated where they are used: what is left is a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what the interpreter flushes at its end
        if not isinstance(error, BrokenPipeError):  # whoever reads has seen enough
            reason = error.strerror or error
            print(f"syncd: cannot write {error.filename or 'the result'}: {reason}", file=sys.stderr)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
