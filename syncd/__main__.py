"""`python -m syncd`, and the `syncd` command."""

from syncd.cli.main import app


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
