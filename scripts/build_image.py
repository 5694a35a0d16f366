"""`make image`: build/image is an OCI image layout, build/ebbtide-VERSION-image.tar the same as one file.

    python -m scripts.build_image dist/ebbtide-VERSION-py3-none-any.whl build

Nothing is pulled and no daemon is asked. It needs the package index for the locked libraries.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from ebbtide import __version__
from scripts.image.layout import write_archive, write_layout
from scripts.image.rootfs import HOME, PYTHON, NotBuilt, build_rootfs, settle_modes, size_of
from scripts.image.sbom import PLACE, write_sbom

MB = 1_000_000


def build(wheel: Path, out: Path) -> Path:
    """The archive. What an earlier build left is replaced only by a whole one."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".image-") as work:
        root, layout = Path(work) / "root", Path(work) / "layout"
        root.mkdir()
        build_rootfs(root, wheel)
        write_sbom(root, root / HOME / "lib" / PYTHON / "site-packages")
        settle_modes(root)
        digest = write_layout(root, layout, "ebbtide", __version__)
        archive = out / f"ebbtide-{__version__}-image.tar"
        write_archive(layout, Path(work) / archive.name)
        shutil.copyfile(root / PLACE, out / f"ebbtide-{__version__}-sbom.cdx.json")
        shutil.rmtree(out / "image", ignore_errors=True)
        layout.rename(out / "image")
        (Path(work) / archive.name).replace(archive)
        print(
            f"{archive}: {archive.stat().st_size / MB:.0f} MB, {size_of(root) / MB:.0f} MB unpacked, {digest}"
        )
    return archive


def main() -> int:
    try:
        build(Path(sys.argv[1]), Path(sys.argv[2]))
    except NotBuilt as why:
        print(f"image: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
