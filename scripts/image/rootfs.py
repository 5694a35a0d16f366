"""The filesystem of the image: a Python, the locked libraries, Ebbtide, and the C libraries that they load.

There is no shell, no package manager and nothing that can be written to. The Python is the one that runs this
script; its C libraries are found by asking the loader, so what is missing shows now and not in a pod.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-image.lock"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
HOME = Path("opt/python")
USER = 65532
UNUSED = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages")
UNUSED_MODULES = re.compile(r"^(_tkinter|readline|_curses|_dbm|_gdbm|nis|ossaudiodev|_test|_ctypes_test|xx)")
SERVICES = ("ec2", "dynamodb", "ssm", "sqs", "sts")
"""Of AWS, whose descriptions are kept; botocore brings hundreds."""
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
ENTRY = "#!/opt/python/bin/{python} \nfrom {module} import main\n\nmain()\n"
HEALTH = """\
#!/opt/python/bin/{python} -I
# Whether `ebbtide run` in this container ticks, for runtimes that cannot ask over HTTP.
import os, sys, urllib.request

address = os.environ.get("METRICS_ADDR", "127.0.0.1:9808").replace("0.0.0.0", "127.0.0.1")
try:
    with urllib.request.urlopen(f"http://{{address}}/healthz", timeout=5) as answer:
        sys.exit(answer.status != 200)
except OSError:
    sys.exit(1)
"""


class NotBuilt(Exception):
    """Why there is no image, in a sentence."""


def build_rootfs(root: Path, wheel: Path) -> None:
    """`root` is empty before; nothing outside of it is touched. Modes are settled when all is in it."""
    _copy_python(root)
    _install(root, wheel)
    _trim(root)
    _write_files(root)
    _copy_libraries(root)
    packages = str(root / HOME / "lib" / PYTHON)
    # The root is read-only: without bytecode every start compiles everything again.
    compileall.compile_dir(
        packages,
        quiet=2,
        stripdir=str(root),
        prependdir="/",
        workers=0,
        invalidation_mode=compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH,  # type: ignore[attr-defined]
    )


def _copy_python(root: Path) -> None:
    base = Path(sys.base_prefix)
    lib = base / "lib" / PYTHON

    def left_out(folder: str, names: list[str]) -> set[str]:
        drop = {name for name in names if name == "__pycache__" or name.endswith((".a", ".pyc"))}
        if Path(folder) == lib:
            drop |= {name for name in names if name in UNUSED or name.startswith("config-")}
        if Path(folder).name == "lib-dynload":
            drop |= {name for name in names if UNUSED_MODULES.match(name)}
        return drop

    shutil.copytree(lib, root / HOME / "lib" / PYTHON, ignore=left_out)
    binary = root / HOME / "bin" / PYTHON
    binary.parent.mkdir(parents=True)
    shutil.copyfile(base / "bin" / PYTHON, binary)
    (root / HOME / "lib" / PYTHON / "site-packages").mkdir()


def _install(root: Path, wheel: Path) -> None:
    target = root / HOME / "lib" / PYTHON / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install"]
    into = ["--target", str(target), "--no-compile", "--no-deps"]
    _run([*pip, *into, "--only-binary=:all:", "--require-hashes", "-r", str(LOCK)])
    _run([*pip, *into, "--upgrade", str(wheel)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(
            f"{' '.join(command[:6])} ... failed; no image was written: {done.stderr.strip()[-500:]}"
        )


def _trim(root: Path) -> None:
    packages = root / HOME / "lib" / PYTHON / "site-packages"
    data = packages / "botocore" / "data"
    for service in (one for one in data.iterdir() if one.is_dir() and one.name not in SERVICES):
        shutil.rmtree(service)
    for service in (data / name for name in SERVICES):
        for old in sorted(one for one in service.iterdir() if one.is_dir())[:-1]:
            shutil.rmtree(old)
    for unused in ("bin", "boto3/data", "boto3/examples"):
        shutil.rmtree(packages / unused, ignore_errors=True)
    for folder in [path for path in packages.rglob("tests") if path.is_dir()]:
        shutil.rmtree(folder, ignore_errors=True)
    for file in [*packages.rglob("*.pyi"), *data.rglob("examples-*.json"), *packages.rglob("RECORD")]:
        file.unlink()  # RECORD lists what is no longer there


def _write_files(root: Path) -> None:
    texts = {
        "etc/passwd": f"nonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n",
        "etc/group": f"nonroot:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
        "usr/bin/ebbtide": ENTRY.format(python=PYTHON, module="ebbtide.entrypoints.cli"),
        "usr/bin/ebbtide-health": HEALTH.format(python=PYTHON),
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("tmp", "proc", "dev", "sys", "etc/ebbtide", "run"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    certificates = root / CERTIFICATES
    certificates.parent.mkdir(parents=True)
    bundled = root / HOME / "lib" / PYTHON / "site-packages" / "certifi" / "cacert.pem"
    shutil.copyfile(bundled, certificates)


def _copy_libraries(root: Path) -> None:
    """What the loader resolves for each binary, next to the C library: there it looks without being told."""
    needed: dict[str, Path] = {}
    for binary in _binaries(root):
        needed.update(_needed_by(binary))
    inside = root.resolve()
    libc = needed.get("libc.so.6")
    if libc is None:
        raise NotBuilt(
            "this Python is not linked to glibc; no image was written. Use one of Debian or python.org."
        )
    for name, path in needed.items():
        if path.resolve().is_relative_to(inside):
            continue  # a wheel brought it, and finds it there
        place = path if name.startswith("ld-linux") else libc.parent / name
        copy = root / str(place).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path.resolve(), copy)


def _binaries(root: Path) -> Iterator[Path]:
    yield root / HOME / "bin" / PYTHON
    yield from (
        path for path in sorted((root / HOME).rglob("*.so*")) if path.is_file() and not path.is_symlink()
    )


def _needed_by(binary: Path) -> dict[str, Path]:
    told = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    missing = re.findall(r"^\s*(\S+) => not found", told, re.MULTILINE)
    if missing:
        raise NotBuilt(
            f"{binary.name} needs {', '.join(missing)}, which this machine lacks; no image was written"
        )
    found = {name: Path(path) for name, path in re.findall(r"^\s*(\S+) => (/\S+)", told, re.MULTILINE)}
    loaders = re.findall(r"^\s*(/\S*ld-linux\S*)", told, re.MULTILINE)
    return {**found, **{Path(path).name: Path(path) for path in loaders}}


def settle_modes(root: Path) -> None:
    """One set of modes for all, whatever the umask here: readable by anybody, writable by nobody."""
    programs = {root / "usr/bin/ebbtide", root / "usr/bin/ebbtide-health", root / HOME / "bin" / PYTHON}
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        run = path.is_dir() or path in programs or path.name.startswith("ld-linux")
        path.chmod(0o555 if run else 0o444)
    (root / "tmp").chmod(stat.S_ISVTX | 0o777)


def size_of(root: Path) -> int:
    return sum(os.lstat(path).st_size for path in root.rglob("*") if path.is_file())
