"""Makes the venv for packages that a session installs (environment.py says why):
`python -I session_venv.py FOLDER`.

Its Python is that of the interpreter that runs this, and sees its packages, too: a .pth file adds
their folders behind those of the venv, with the .pth files in them.
"""
import os
import sys
import venv


def main():
    folder = sys.argv[1]
    venv.EnvBuilder(symlinks=True).create(folder)
    for name in os.listdir(os.path.join(folder, "bin")):
        if not name.startswith("python"):
            os.unlink(os.path.join(folder, "bin", name))  # scripts for people's shells
    packages = os.path.join(folder, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    with open(os.path.join(packages, "fumehood.pth"), "w", encoding="utf-8") as file:
        for entry in sys.path:
            if os.path.basename(entry) in ("site-packages", "dist-packages"):
                file.write("import site; site.addsitedir(%r)\n" % entry)


if __name__ == "__main__":
    main()
