"""`python -m syncd`, and the `syncd` command."""

import gc
import os
import sys

gc.disable()  # until a command begins: imports leave no garbage, and looking for it is a twentieth of them

FAILED = 1
INTERRUPTED = 130  # as a shell counts it, and as typer ends between here and a command's own work


def main() -> None:
    """The console script. It imports inside: that is most of a short command's time, and Ctrl-C comes in it
    as in any other.
    """
    try:
        from syncd.cli.main import app

        try:
            app()
        finally:
            if sys.stdout is not None:  # it may have been closed
                sys.stdout.flush()  # here, where a full disk can still be told
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # drivers' own are translated where they are used: what is left is a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what the interpreter flushes at its end
        if not isinstance(error, BrokenPipeError):  # whoever reads has seen enough
            what = error.filename or "cannot write the result"
            sys.stderr.write(f"syncd: {what}: {error.strerror or error}\n")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
