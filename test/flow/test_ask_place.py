"""`fumehood ask` in its surroundings: who reads it, and the folder that it stands in."""
import signal

from ask_kit import Live, answer, ask, journal
from fumehood_kit import WAIT_S


def test_nobody_reads_while_the_model_thinks(house):
    """There is no next line at which that would be seen."""
    with Live(house, [answer("print(1)", delay_ms=600000)], "--effort", "low") as live:
        live.wait_for("attempt", state="started")
        session = live.lines[0]["session"]
        live.process.stdout.close()
        assert live.process.wait(WAIT_S) == -signal.SIGPIPE
    assert journal(house, session)[-1]["type"] == "stopped"
    assert [event["success"] for event in journal(house, session)
            if event["type"] == "verdict"] == [False]


def test_a_private_workspace(house, folder):
    (folder / "secret.txt").write_text("sesame")
    code = "import os; print(os.listdir()); open('made.txt', 'w').close()"
    done = ask(house, [answer(code)] * 3, "--private", "--effort", "low", cwd=folder)
    assert done.result["stdout"] == "[]"
    assert [path.name for path in folder.iterdir()] == ["secret.txt"]
    assert house.cli("ask", "--private", "-w", ".", "x").status == 2
