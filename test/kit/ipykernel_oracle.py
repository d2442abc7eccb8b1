#!/usr/bin/env python3
"""Runs cells in a real ipykernel and prints what came back, for tests that compare with it.

Usage: ipykernel_oracle.py FOLDER < cells.json; started with the Python whose kernel is wanted.
Prints a JSON list with [status, events] for each cell; an event is [kind, value...] as
test_magics.py has it.
"""
import json
import sys

from jupyter_client.manager import KernelManager

WAIT_S = 60


def event_of(message):
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        return [content["name"], content["text"]]
    if kind == "execute_result":
        return ["result", content["data"]]
    if kind == "display_data":
        return ["display", content["data"]]
    if kind == "update_display_data":
        return ["update", content["data"]]
    if kind == "error":
        return ["error", content["ename"], content["evalue"]]
    if kind == "clear_output":
        return ["clear", content["wait"]]
    return None


def run(client, code):
    ident = client.execute(code, allow_stdin=False)
    events = []
    while True:
        message = client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") != ident:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
        event = event_of(message)
        if event and events and event[0] in ("stdout", "stderr") and events[-1][0] == event[0]:
            events[-1][1] += event[1]
        elif event:
            events.append(event)
    while True:
        reply = client.get_shell_msg(timeout=WAIT_S)
        if reply["parent_header"].get("msg_id") == ident:
            break
    for payload in reply["content"].get("payload", ()):  # the pager, and cells to be filled in
        data = payload.get("data") or {"text/plain": payload.get("text", "")}
        events.append(["display", data])
    return [reply["content"]["status"], events]


def main():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=sys.argv[1])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT_S)
        answers = [run(client, code) for code in json.load(sys.stdin)]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
