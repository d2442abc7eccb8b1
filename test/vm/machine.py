#!/usr/bin/env python3
"""The sandbox on kernels that this machine does not have: Debian's own, in a virtual machine.

Usage: machine.py [KERNEL...] [PART...], started by test/vm/run. Without KVM (tcg), so it works
inside of other virtual machines, ten to twenty times slower than the machine itself.

image    an ext4 file with the system of this machine and the tests' Python; made once, and mounted
         so that what is written to it is gone at the end
work     another one with the sources and the build
kernel   from Debian's packages, not installed but unpacked; its drivers go into an initramfs
results  written by inside.py to a third disk as tar, unpacked here to build/vm/results-KERNEL

Control groups are of version 2 in there, as systemd lays them out, and nothing is mounted that
would hide them: what this project's own machines may lack. Needs root, to read all of /etc.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("FUMEHOOD_BUILD") or ROOT / "build").resolve()
PYTHON = pathlib.Path(os.environ.get("FUMEHOOD_PYTHON")
                      or ROOT / "build" / "check-venv" / "bin" / "python")
PLACE = pathlib.Path(os.environ.get("FUMEHOOD_VM") or ROOT / "build" / "vm")
HERE = pathlib.Path(__file__).resolve().parent
# Of each: where its newest package is looked for.
KERNELS = {
    "6.1": ("bookworm", "bookworm-security"),   # Debian 12: Landlock ABI 2
    "6.12": ("trixie", "trixie-security"),      # Debian 13: Landlock ABI 6
}
PARTS = ("unit", "doctor", "vm", "limits", "overlay", "probes", "sandbox")
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
META = "linux-image-cloud-amd64"
# What of this machine the other one has. Globs.
SYSTEM = ("/etc", "/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
          "/usr/lib/python3*", "/usr/lib/ssl", "/usr/lib/git-core", "/usr/lib/locale",
          "/usr/lib/sysctl.d", "/usr/share/zoneinfo", "/usr/share/ca-certificates",
          "/usr/share/mime", "/usr/share/misc", "/usr/share/python3", "/usr/share/git-core")
FOLDERS = ("dev", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var/lib",
           "var/tmp", "var/cache", "var/log")
OWN = ("doc", "examples", "include", "man", "python", "src", "test", "tools")
NOT_OF_A_BUILD = ("*.p", "*.o", "check", "check-venv", "vm", "corpus", "meson-logs")
# Disk, then what overlays and the shaping of traffic are made of.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4")
MODULES = ("overlay",)
IMAGE_MIB, WORK_MIB, RESULTS_MIB = 6144, 4096, 128
MEMORY_MIB, PROCESSORS = 3072, 2
BOOT_S_MAX = 4 * 3600
SKIPPED = 77  # of a unit test that does not apply


def say(text):
    print("vm: " + text, file=sys.stderr, flush=True)


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise SystemExit("vm: %s failed:\n%s" % (" ".join(map(str, command)),
                                                 done.stdout.decode(errors="replace")[-4000:]))
    return done.stdout.decode()


# ------------------------------------------------------------------------------------- the kernel

def apt(place, suites):
    """Options with which apt-get knows these suites alone, beside what the machine itself uses."""
    for folder in ("lists/partial", "archives/partial"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / "sources.list").write_text("".join(
        "deb [signed-by=%s] %s%s %s main\n" % (
            KEYRING, MIRROR, "-security" if suite.endswith("-security") else "", suite)
        for suite in suites))
    values = {"Dir::Etc::SourceList": place / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
              "Dir::State::Lists": place / "lists", "Dir::Cache::Archives": place / "archives",
              "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "",
              "APT::Sandbox::User": "root"}
    return [word for name, value in values.items() for word in ("-o", "%s=%s" % (name, value))]


def fetch_kernel(name):
    """Unpacks the newest package of a kernel once; returns the folder."""
    place = PLACE / ("kernel-" + name)
    if (place / "whole").exists():
        return place
    say("fetching Debian's kernel " + name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    options = apt(place / "apt", KERNELS[name])
    run("apt-get", *options, "update", "-qq")
    depends = run("apt-cache", *options, "depends", "--important", META)
    package = [line.split()[1] for line in depends.splitlines() if "linux-image-" in line
               and "Depends:" in line][-1]
    run("apt-get", *options, "download", "-qq", package, cwd=place)
    deb, = place.glob("*.deb")
    run("dpkg-deb", "-x", deb, place)
    modules, = [path for path in (*place.glob("lib/modules/*"), *place.glob("usr/lib/modules/*"))]
    for packed in modules.rglob("*.ko.xz"):
        run("xz", "-d", packed)
    run("busybox", "depmod", "-b", modules.parent.parent.parent, modules.name)
    (place / "modules").symlink_to(modules.relative_to(place))
    (place / "vmlinuz").symlink_to(next(place.glob("boot/vmlinuz-*")).relative_to(place))
    deb.unlink()
    shutil.rmtree(place / "apt")
    (place / "whole").touch()
    return place


def module_files(kernel, names):
    """The files of these modules and of those they need, in the order in which they load."""
    needs, found = {}, []
    for line in (kernel / "modules" / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        needs[pathlib.PurePath(file).name.partition(".ko")[0].replace("-", "_")] = \
            [file, *rest.split()]
    for name in names:
        for file in reversed(needs.get(name, [])):  # not there: it is a part of the kernel
            if file not in found:
                found.append(file)
    return [kernel / "modules" / file for file in found]


def make_initramfs(kernel):
    tree = kernel / "initramfs"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), tree / "bin" / "busybox")
    (tree / "bin" / "sh").symlink_to("busybox")
    shutil.copy(HERE / "init.sh", tree / "init")
    (tree / "init").chmod(0o755)
    files = module_files(kernel, BOOT_MODULES)
    for path in files:
        shutil.copy(path, tree / path.name)
    (tree / "modules").write_text("".join("/%s\n" % path.name for path in files))
    run("sh", "-c", "find . | busybox cpio -o -H newc | gzip -1 >../initramfs.gz", cwd=tree)
    return kernel / "initramfs.gz"


# ---------------------------------------------------------------------------------------- the disks

def make_disk(path, mib, tree=None):
    path.unlink(missing_ok=True)
    with open(path, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(mib << 20)
    if tree:
        run("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", tree, path)


def venv():
    return PYTHON.parent.parent


def stamp():
    """Changes with what the image is made from."""
    what = hashlib.sha256(json.dumps(SYSTEM).encode())
    for path in ("/var/lib/dpkg/status", venv() / ".packages"):
        if os.path.exists(path):
            what.update(pathlib.Path(path).read_bytes())
    what.update(str(venv()).encode())
    return what.hexdigest()


STAGE = """
set -e
stage=$1; shift
mount -t tmpfs stage "$stage"
cd "$stage"
mkdir -p $FOLDERS usr/lib
chmod 1777 tmp var/tmp; chmod 700 root
for link in bin sbin lib lib64; do
	[ -L /$link ] && cp -a /$link .
done
cp -a /usr/lib/os-release usr/lib/
for path; do
	mkdir -p ".$path"
	mount --bind "$path" ".$path"
done
mke2fs -q -t ext4 -E root_owner=0:0 -d "$stage" "$IMAGE"
"""


def make_image():
    """The system of this machine, or as much of it as the tests need."""
    image, mark = PLACE / "image", PLACE / "image.stamp"
    if image.exists() and mark.exists() and mark.read_text() == stamp():
        return image
    say("making an image of this machine's system")
    mark.unlink(missing_ok=True)
    paths = [str(path) for pattern in SYSTEM
             for path in sorted(pathlib.Path("/").glob(pattern[1:])) if path.is_dir()]
    paths = [path for path in paths if not os.path.islink(path)] + [str(venv())]
    stage = PLACE / "stage"
    stage.mkdir(parents=True, exist_ok=True)
    make_disk(image, IMAGE_MIB)
    run("unshare", "-m", "sh", "-c", STAGE, "sh", stage, *paths,
        env={**os.environ, "FOLDERS": " ".join(FOLDERS), "IMAGE": str(image)})
    mark.write_text(stamp())
    return image


def unit_programs(parts):
    """[name, command, seconds] of the sandbox's unit tests; with "unit:NAME" only of these."""
    names = {part[5:] for part in parts if part.startswith("unit:")}
    tests = json.loads(run("meson", "introspect", "--tests", BUILD))
    return [[test["name"], test["cmd"], test["timeout"]] for test in tests
            if set(test["suite"]) & {"sandbox", "fumehood:sandbox"}
            and (not names or test["name"] in names)]


def make_work(kernel, parts):
    """The sources, the build, and what is to be done with them."""
    stage = PLACE / "work-stage"
    shutil.rmtree(stage, ignore_errors=True)
    tree, paths = stage / "tree", [BUILD, *(ROOT / name for name in OWN)]
    for path in paths:
        left_out = ("__pycache__", *(NOT_OF_A_BUILD if path == BUILD else ()))
        shutil.copytree(path, tree / str(path)[1:], symlinks=True,
                        ignore=shutil.ignore_patterns(*left_out))
    (stage / "paths").write_text("".join("%s\n" % path for path in paths))
    modules = module_files(kernel, MODULES)
    (stage / "modules").write_text("".join("/vm/%s\n" % path.name for path in modules))
    for path in modules:
        shutil.copy(path, stage)
    shutil.copy(HERE / "inside.py", stage)
    (stage / "order.json").write_text(json.dumps({
        "root": str(ROOT), "build": str(BUILD), "python": str(PYTHON),
        "parts": list(dict.fromkeys(part.partition(":")[0] for part in parts)),
        "unit": unit_programs(parts)}))
    make_disk(PLACE / "work", WORK_MIB, stage)
    shutil.rmtree(stage)
    return PLACE / "work"


# ------------------------------------------------------------------------------------- the machine

def boot(name, parts):
    """Runs a machine to its end; returns the folder of its results."""
    kernel, image = fetch_kernel(name), make_image()
    results, console = PLACE / ("results-" + name), PLACE / ("console-%s.log" % name)
    disks = [(image, "on"), (make_work(kernel, parts), "on"), (PLACE / "results.img", "off")]
    make_disk(PLACE / "results.img", RESULTS_MIB)
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
               "-no-reboot", "-machine", "q35", "-accel", "tcg,thread=multi",
               "-cpu", "max,la57=off", "-smp", PROCESSORS, "-m", MEMORY_MIB,
               "-kernel", kernel / "vmlinuz", "-initrd", make_initramfs(kernel),
               "-append", "console=ttyS0 panic=-1 quiet mitigations=off",
               "-serial", "file:%s" % console]
    for path, snapshot in disks:
        command += ["-drive", "file=%s,if=virtio,format=raw,snapshot=%s,cache=unsafe" % (
            path, snapshot)]
    shutil.rmtree(results, ignore_errors=True)
    say("booting kernel %s; its console is %s" % (name, console))
    start = time.monotonic()
    try:
        subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                       timeout=BOOT_S_MAX, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        raise SystemExit("vm: kernel %s: %s\n%s" % (name, error, tail(console)))
    try:
        with tarfile.open(PLACE / "results.img") as archive:
            archive.extractall(PLACE / "unpacked")
    except tarfile.TarError:
        raise SystemExit("vm: kernel %s gave no results:\n%s" % (name, tail(console)))
    (PLACE / "unpacked" / "results").rename(results)
    say("kernel %s took %.0f s" % (name, time.monotonic() - start))
    return results


def tail(path):
    return path.read_text(errors="replace")[-4000:] if path.exists() else ""


def main(words):
    if os.geteuid() != 0:
        raise SystemExit("vm: needs root, to make an image of the system")
    names = [word for word in words if word in KERNELS] or list(KERNELS)
    parts = [word for word in words if word.partition(":")[0] in PARTS] or PARTS
    if unknown := set(words) - set(KERNELS) - set(parts):
        raise SystemExit("vm: unknown: %s; kernels: %s; parts: %s" % (
            " ".join(unknown), " ".join(KERNELS), " ".join(PARTS)))
    PLACE.mkdir(parents=True, exist_ok=True)
    bad = 0
    for name in names:
        results = boot(name, parts)
        for step in json.loads((results / "steps.json").read_text()):
            print("%-6s %-28s %8.1f s  status %s" % (name, step["name"], step["seconds"],
                                                     step["status"]))
            bad += step["status"] not in (0, SKIPPED)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
