"""The process ``mmtool``: the console script, and ``python -m mmtool``."""

from mmtool.runtime.process import ends_after_python


def main() -> None:
    """Run this process's command line, and end the process with the contract's exit code."""
    with ends_after_python():  # first of all: what is imported here may register handlers of its own
        from mmtool.commands import app

        app.main()


if __name__ == "__main__":
    main()
