#!/usr/bin/env python3
"""Checks that the includes under src/ go in one direction, as doc/layers.txt says.

Usage: layers.py [ROOT]. Prints each include that breaks the order and exits with 1, else with 0.
Tests beside the code (*_test.c, *_kit.h) follow the same order as the folder they stand in.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_rules(path):
    """The order of folders, and the three kinds of exceptions."""
    rank, never, may, apart = {}, set(), set(), set()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "never:":
                never.add((words[1], words[2]))
            elif words[0] == "may:":
                may.add((words[1], words[2]))
            elif words[0] == "apart:":
                apart.update(words[1:])
            else:
                level = len(set(rank.values()))
                for name in words:
                    rank[name] = level
    return rank, never, may, apart


def complaint(folder, target, rules):
    """Why `folder` may not include `target` (a path under src/), or None."""
    rank, never, may, apart = rules
    other = target.split("/")[0]
    if "/" not in target:
        return "names no folder" if folder not in apart else None
    if other == folder or (folder, target) in may:
        return None
    if folder in apart or other in apart:
        return "%s stands apart" % (folder if folder in apart else other)
    if other not in rank:
        return "%s is in no layer" % other
    if (folder, other) in never:
        return "%s never sees %s" % (folder, other)
    if rank[other] >= rank[folder]:
        return "%s is not below %s" % (other, folder)
    return None


def sources(root):
    for top, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.join(top, name)


def main(argv):
    root = argv[1] if len(argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rules = read_rules(os.path.join(root, "doc", "layers.txt"))
    bad = count = 0
    for path in sources(root):
        folder = os.path.relpath(path, os.path.join(root, "src")).split(os.sep)[0]
        if folder not in rules[0] and folder not in rules[3]:
            print("%s: the folder %s is not in doc/layers.txt" % (path, folder))
            bad += 1
            continue
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                # The public header is the client library's own; system headers use <>.
                if not match or match.group(1) == "fumehood.h":
                    continue
                count += 1
                why = complaint(folder, match.group(1), rules)
                if why:
                    print("%s:%d: \"%s\": %s" % (path, number, match.group(1), why))
                    bad += 1
    print("%d includes, %d against the layers" % (count, bad))
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
