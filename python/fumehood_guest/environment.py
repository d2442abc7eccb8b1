"""Variables of the environment that the keeper sets between cells, and a place for packages.

Where a session may reach hosts, `pip install` has to put packages somewhere. The environment that
the session runs in is read-only and shared, so they go into a small venv of the session's own, in
its workspace: there they are found by the session, and by Pythons that it starts, before those of
the environment. pip sees both (a .pth file leads on), so it fetches what is missing and no more; an
upgrade of something from the environment shadows it, because pip leaves alone what lies outside of
the venv that it runs for.

Every pip goes there, however it is started (%pip, !pip, a subprocess): PIP_PYTHON names the
interpreter for which pip works. What it names is a script in /tmp that makes the venv first
(session_venv.py): a session that installs nothing has nothing in its workspace. A pip before 22.3
does not know that variable and is given PIP_PREFIX, with which it cannot upgrade what the
environment has.
"""
__builtins__ = dict(__builtins__)

import json
import os
import sys

SCRIPT = "/tmp/fumehood-python"
PIP_WITH_PYTHON = (22, 3)


# The machine's certificates, for those that would take a list of their own: what its owner trusts
# there, such as a company's proxy, is trusted in a session.
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")


def take(body):
    """An order of the keeper (GUEST_ENVIRONMENT)."""
    order = json.loads(body)
    for name, value in order.get("variables", {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if order.get("packages"):
        offer(order["packages"])
    forget_opener(sys.modules.get("urllib.request"))


def forget_opener(request):
    """urllib reads the variables once, at the first urlopen(). The opener that it has made then is
    made anew; one that a program has installed is left alone."""
    opener = getattr(request, "_opener", None)
    if opener is None:
        return
    usual = {type(handler) for handler in request.build_opener().handlers}
    if {type(handler) for handler in opener.handlers} <= usual | {request.ProxyHandler}:
        request.install_opener(None)


def site_folder(folder):
    return os.path.join(folder, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def is_packages(entry):
    return os.path.basename(entry) in ("site-packages", "dist-packages")


def offer(folder):
    """Makes `folder` the place for packages, on sys.path and for what is started from now on."""
    from importlib import machinery
    site = site_folder(folder)
    if site not in sys.path:
        first = [at for at, entry in enumerate(sys.path) if is_packages(entry)]
        sys.path.insert(first[0] if first else len(sys.path), site)
    # For a folder that is not there yet Python remembers that it has no finder.
    sys.path_importer_cache[site] = machinery.FileFinder(
        site, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES))
    add_first("PYTHONPATH", site)
    add_first("PATH", os.path.join(folder, "bin"))
    os.environ["PIP_NO_CACHE_DIR"] = "1"  # it would lie in the workspace
    for bundle in filter(os.path.exists, CERTIFICATES):
        for name in CERTIFICATE_VARIABLES:
            os.environ.setdefault(name, bundle)
    if pip_version() >= PIP_WITH_PYTHON:
        write_script(folder)
        os.environ["PIP_PYTHON"] = SCRIPT
    else:
        os.environ["PIP_PREFIX"] = folder


def add_first(name, folder):
    folders = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
    if folder not in folders:
        os.environ[name] = os.pathsep.join([folder] + folders)


def pip_version():
    from importlib import metadata
    try:
        return tuple(int(part) for part in metadata.version("pip").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return PIP_WITH_PYTHON


def write_script(folder):
    from shlex import quote
    python = os.path.join(folder, "bin", "python")
    maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "session_venv.py")
    make = " ".join(map(quote, [sys.executable, "-I", maker, folder]))
    text = "#!/bin/sh\n[ -x {0} ] || {1} || exit 1\nexec {0} \"$@\"\n".format(quote(python), make)
    fd = os.open(SCRIPT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o755)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
