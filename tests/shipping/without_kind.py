"""A checkout without one of the kinds, and an environment in which it is installed."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .project import ROOT, environment, run

#: What is no part of a checkout. What is compiled and the console that is built go along: to copy them is quicker.
_MADE: Final = (".venv", ".git", ".*_cache", "node_modules")

#: As pip writes the command.
_SCRIPT: Final = """\
import sys
from worldledger_service.cli.entry import main
if __name__ == "__main__":
    sys.exit(main())
"""


def checkout_without(kind: str, folder: Path, tests: Iterable[str]) -> str:
    """Copy the checkout into a folder, without a kind's package and entry point, and without these tests; install it.

    Return the Python of an environment that has the packages of this one.
    """
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_MADE))
    shutil.rmtree(folder / "kinds" / kind)
    for place in map(folder.joinpath, tests):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    about = folder / "pyproject.toml"
    text = about.read_text()
    package = f"worldledger_{kind}"
    for named in (f'{kind} = "{package}:KIND"\n', f'    "kinds/{kind}/{package}",\n', f'"kinds/{kind}", '):
        assert named in text
        text = text.replace(named, "")
    about.write_text(text)
    made = folder / ".venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(made)], cwd=folder, env=environment())
    (site,) = (made / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text("\n".join(map(sysconfig.get_path, ("purelib", "platlib"))))
    python = str(made / "bin" / "python")
    # As pip makes an editable installation, without its other work.
    build = "import hatchling.build; print(hatchling.build.build_editable('.venv'))"
    wheel = run([sys.executable, "-c", build], cwd=folder, env=environment()).split()[-1]
    with zipfile.ZipFile(made / wheel) as archive:
        archive.extractall(site)
    script = made / "bin" / "worldledger"
    script.write_text(f"#!{python}\n{_SCRIPT}")
    script.chmod(0o755)
    return python
