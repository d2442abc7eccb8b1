"""Before each fork: is there anything in this process that a guest would share with others?

A guest is a copy of the zygote's memory and must be nothing else. Threads are not copied, so there
may be one task only. A mapping that is shared and writable would be the same memory in all guests.
(All descriptors but four are closed in the guest itself.) What a package does while it is imported
can make either.

Reading the list of mappings takes nearly a millisecond, so it is read again only when the size of
the address space has changed since; the size is a few microseconds.
"""
import os


def tasks():
    return len(os.listdir("/proc/self/task"))


def task_names():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/comm" % task, encoding="utf-8", errors="replace") as file:
            names.append(file.read().strip())
    return ", ".join(names)


def shared_mappings():
    """What is mapped shared and writable, by name."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            if fields[1][1] == "w" and fields[1][3] == "s":
                found.append(fields[5].strip() if len(fields) > 5 else "anonymous")
    return found


class Check:
    def __init__(self):
        self.size = None
        self.shared = []

    def __call__(self):
        """What forbids a fork, or None."""
        if tasks() != 1:
            return "the zygote has more than one thread: " + task_names()
        with open("/proc/self/statm", "rb") as file:
            size = file.read().split()[0]
        if size != self.size:
            self.shared = shared_mappings()
            self.size = size
        if self.shared:
            return "the zygote shares memory: " + ", ".join(self.shared)
        return None
