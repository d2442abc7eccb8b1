"""What the original does, as its behaviour is documented (decision 076), on a real ipykernel.

Only for comparison: a cell is sent to the kernel, what it publishes until it is idle is turned into
marks, each item is cut, and joined. Nothing of the faults is left out. It runs in a process of its
own (a list of cells on stdin, their results on stdout, JSON), because a Jupyter client leaves
sockets open.
"""
import json
import re
import subprocess
import sys

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FORMS = (("text/plain", "text"), ("text/html", "html"), ("image/png", "png"),
         ("image/jpeg", "jpeg"))


def cut(text):
    """More than 1,000 characters: the first 500, a line, the last 500."""
    return text if len(text) <= 1000 else text[:500] + "\n... (内容已截断) ...\n" + text[-500:]


def run(cells, folder):
    """[(text, error_occurred, error_message)] of the cells, in a fresh kernel."""
    done = subprocess.run([sys.executable, __file__, str(folder)], input=json.dumps(cells),
                          capture_output=True, text=True, check=True)
    return [tuple(one) for one in json.loads(done.stdout)]


class Documented:
    def __init__(self, folder):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))
        self.marks("%matplotlib inline")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()

    def marks(self, code):
        """(mark, content) of what the kernel publishes."""
        request, found = self.client.execute(code), []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return found
            if kind == "stream" and content["name"] == "stdout":
                found.append(("stdout", content["text"]))
            elif kind in ("execute_result", "display_data"):
                begin = "execute_result" if kind == "execute_result" else "display"
                found += [("%s_%s" % (begin, end), content["data"][mime])
                          for mime, end in FORMS if mime in content["data"]]
            elif kind == "error":
                found.append(("error", COLOUR.sub("", "\n".join(content["traceback"]))))

    def execute(self, code):
        """(text, error_occurred, error_message)"""
        texts, error = [], None
        for mark, content in self.marks(code):
            if mark in ("stdout", "execute_result_text", "display_text"):
                texts.append(cut("[%s]\n%s" % (mark, content)))
            elif mark.endswith(("_png", "_jpeg")):
                texts.append("[%s 图片已生成，内容为 base64，未展示]" % mark)
            elif mark == "error":
                error = cut(content)
                texts.append(error)
        return "\n".join(texts), error is not None, error or ""


if __name__ == "__main__":
    documented = Documented(sys.argv[1])
    try:
        print(json.dumps([documented.execute(cell) for cell in json.load(sys.stdin)]))
    finally:
        documented.close()
