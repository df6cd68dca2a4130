"""`python -m syncd`, and the `syncd` command."""

import gc

gc.disable()  # until a command begins: imports leave no garbage, and looking for it is a twentieth of them

from syncd.cli.main import app  # noqa: E402


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
