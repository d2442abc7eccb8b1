"""The program: options, a private place to run in, the table, the end of all it started."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from importlib.metadata import version

import machine
import sides
from works import WORKS, Bench

PACKAGES = ("ipykernel", "jupyter_client", "nbclient", "ipython", "numpy", "pandas", "matplotlib")
NO_CORE_TYPE = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # of the machine, not of a user


def parse():
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Fumehood beside jupyter_client + ipykernel."
    )
    parser.add_argument(
        "--only", help="names of works, with commas: " + ",".join(WORKS), default=",".join(WORKS)
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: shows that the benchmark works"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--build", default="build", help="folder with the built programs")
    options = parser.parse_args()
    options.works = options.only.split(",")
    unknown = [name for name in options.works if name not in WORKS]
    if unknown:
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join(WORKS)}")
    return options


def private_environment(disk, runtime):
    """Nothing of the user's is read or written. The state lies on the disk of the build folder:
    fdatasync costs there what it costs a user, which a /tmp in memory would hide."""
    for name in NO_CORE_TYPE:
        os.environ.pop(name, None)
    for name, folder in (
        ("HOME", "home"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_CONFIG_HOME", "config"),
        ("MPLCONFIGDIR", "matplotlib"),
        ("IPYTHONDIR", "ipython"),
        ("JUPYTER_DATA_DIR", "jupyter"),
        ("JUPYTER_CONFIG_DIR", "jupyter-config"),
        ("JUPYTER_RUNTIME_DIR", "jupyter-run"),
    ):
        os.environ[name] = os.path.join(disk, folder)
        os.makedirs(os.environ[name], mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = runtime
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return dict(os.environ)


# ---------------------------------------------------------------- what is shown


def amount(values, unit):
    if not values:
        return "–"
    digits = 0 if machine.median(values) >= 100 else 1 if machine.median(values) >= 1 else 3
    text = f"{machine.median(values):.{digits}f} {unit}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f}–{max(values):.{digits}f}, n={len(values)})"
    return text


def share(ratio):
    if ratio is None:
        return ""
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"×{ratio:.2f}"


def show(row, quick):
    goal = (
        "" if row.goal is None or quick else f"{share(row.goal)} {'met' if row.met else 'MISSED'}"
    )
    print(
        f"{row.what:<48} {amount(row.ours, row.unit):<34} {amount(row.peers, row.unit):<36} "
        f"{share(row.ratio):<8} {goal}"
    )
    if row.note:
        print(f"    {row.note}")
    sys.stdout.flush()


def show_json(row, quick):
    print(
        json.dumps(
            {
                "work": row.work,
                "what": row.what,
                "unit": row.unit,
                "fumehood": machine.median(row.ours),
                "peer": machine.median(row.peers) if row.peers else None,
                "fumehood_range": [min(row.ours), max(row.ours)],
                "peer_range": [min(row.peers), max(row.peers)] if row.peers else None,
                "n": [len(row.ours), len(row.peers)],
                "ratio": row.ratio,
                "goal": row.goal,
                "met": None if quick else row.met,
                "note": row.note,
                "others_cores": row.noise,
            }
        )
    )
    sys.stdout.flush()


def show_head(options):
    words = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
    if options.json:
        print(json.dumps(words))
        return
    print(", ".join(f"{name} {value}" for name, value in words.items()))
    if options.quick:
        print("--quick: these figures show only that the benchmark works")
    print(
        f"\n{'median (min–max)':<48} {'fumehood':<34} "
        f"{'jupyter_client + ipykernel':<36} {'ratio':<8} goal"
    )


def run_work(name, bench, options):
    """Runs one work and shows its rows; False when it failed."""
    if not options.json:
        print(f"\n{name}: {' '.join(WORKS[name].__doc__.split())}")
    try:
        with machine.Noise() as noise:
            rows = list(WORKS[name](bench))
    except (sides.Failed, OSError, TimeoutError) as error:
        print(f"{name} failed: {error}", file=sys.stderr)
        return False
    for row in rows:
        row.noise = round(noise.cores, 2)
        (show_json if options.json else show)(row, options.quick)
    if noise.cores > machine.NOISE_CORES and not options.json:
        print(
            f"    DISTURBED: other processes used {noise.cores:.1f} cores meanwhile; "
            "repeat it on a quiet machine"
        )
    return True


def main():
    options = parse()
    build = os.path.realpath(options.build)
    disk = tempfile.mkdtemp(prefix="bench-", dir=build)
    runtime = tempfile.mkdtemp(prefix="fumehood-bench-")  # short: a socket's path has 108 bytes
    machine.become_subreaper()
    try:
        environment = private_environment(disk, runtime)
        bench = Bench(sides.Fumehood(build, environment), sides.Ipykernel(), disk, options.quick)
        show_head(options)
        done = [run_work(name, bench, options) for name in options.works]
    finally:
        machine.end_all()
        shutil.rmtree(disk, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
