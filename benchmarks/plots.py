"""Plots of the figures of sizes.py, as `make bench-plots` draws them for docs/benchmarks.md.

python benchmarks/plots.py FILE DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from sizes import MIB, slopes


def main() -> None:
    file, directory = map(Path, sys.argv[1:])
    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "mmtool", "svg.fonttype": "none"}  # the same bytes for the same figures
    for name, rows in json.loads(file.read_text()).items():
        figure, axes = plt.subplots(figsize=(7, 4))
        each = slopes(name, rows)
        for what in rows[0]:
            if what != name and MIB not in what:
                label = f"{what.removesuffix(', s')}: {each[f'{what}, ms each']:.2g} ms each"
                axes.plot([row[name] for row in rows], [row[what] for row in rows], marker="o", label=label)
        axes.set(xscale="log", yscale="log", xlabel=name, ylabel="seconds")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
        figure.savefig(
            directory / f"growth-{name}.svg", bbox_inches="tight", metadata={"Date": None, "Creator": None}
        )


if __name__ == "__main__":
    main()
