"""The entry point of ``python -m mmtool``."""

from mmtool.commands.app import main

if __name__ == "__main__":
    main()
