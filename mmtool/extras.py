"""Parts of mmtool that are installed only on demand."""


def install_extra(name: str) -> str:
    """How to install one of mmtool's extras, as ``msk``."""
    return (
        f"install mmtool with its extra `{name}`: `pipx install --force '.[{name}]'` in the clone, or"
        f" `pip install 'mmtool[{name}]'` in the environment that has mmtool"
    )
