"""The tables, made of rows alone: of a run, or again of a file that `--out` has written."""


def share(part, whole):
    return f"{part}/{whole}"


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0


def sides_of(rows):
    return list(dict.fromkeys(row["side"] for row in rows))


def table(head, body):
    widths = [max(len(str(line[i])) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        first, *rest = [str(cell) for cell in line]
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())


def summary(rows):
    """One line a side: right at first and at the end, and what it took."""
    body = []
    base = mean(row["tokens"] for row in rows if row["side"] == "original")
    for side in sides_of(rows):
        mine = [row for row in rows if row["side"] == side]
        tokens, seconds = mean(row["tokens"] for row in mine), sum(row["seconds"] for row in mine)
        model = sum(row["model_seconds"] for row in mine)
        firsts = [
            program["first_token_seconds"]
            for row in mine
            for program in row["programs"][:1]
            if program.get("first_token_seconds") is not None
        ]
        body.append(
            (
                side,
                share(sum(first(row) for row in mine), len(mine)),
                sum(row["right"] for row in mine),
                sum(row["success"] for row in mine),
                f"{mean(len(row['programs']) for row in mine):.1f}",
                f"{tokens:.0f}",
                f"×{tokens / base:.2f}" if base else "",
                f"{mean(row['prompt_tokens'] for row in mine):.0f}",
                f"{mean(row['cached_tokens'] or 0 for row in mine):.0f}",
                f"{seconds / len(mine):.1f}",
                f"{median(row['seconds'] for row in mine):.1f}",
                f"{100 * min(1.0, model / seconds):.0f} %" if seconds else "",
                f"{median(firsts):.2f}",
            )
        )
    table(
        (
            *("side", "right at first", "at the end", "success", "programs", "tokens"),
            *("of original", "prompt", "cached", "seconds", "p50", "in the model", "first token"),
        ),
        body,
    )


def first(row):
    return bool(row["programs"] and row["programs"][0]["right"])


def attempts(rows):
    """Attempt by attempt: how many asked for an nth program, and what came of it."""
    body = []
    for side in sides_of(rows):
        mine = [row for row in rows if row["side"] == side]
        for n in range(max((len(row["programs"]) for row in mine), default=0)):
            nth = [row["programs"][n] for row in mine if len(row["programs"]) > n]
            some = sum(any(one["right"] for one in row["programs"][: n + 1]) for row in mine)
            body.append(
                (
                    side,
                    n + 1,
                    len(nth),
                    sum(one["status"] == "ok" for one in nth),
                    sum(one["right"] for one in nth),
                    some,
                    f"{mean(one.get('tokens') or 0 for one in nth):.0f}",
                )
            )
    table(("side", "attempt", "asked", "ran", "right", "one so far right", "tokens"), body)


def known(row):
    """How the side says that its answer is known."""
    if not row["success"]:
        return "no answer"
    agreement = row["agreement"]
    if row["confidence"] == "agreed" and agreement:
        return f"agreed {agreement['k']} of {agreement['n']}"
    return row["confidence"]


def calibration(rows):
    """How often an answer is right, by how it is said to be known."""
    body = []
    for side in sides_of(rows):
        kinds = {}
        for row in rows:
            if row["side"] == side:
                kinds.setdefault(known(row), []).append(row["right"])
        for kind in sorted(kinds):
            rights = kinds[kind]
            part = f"{100 * mean(rights):.0f} %"
            body.append((side, kind, len(rights), sum(rights), part))
    table(("side", "known", "answers", "right", "share"), body)


def by_task(rows):
    """The marks: R right, x wrong, - no answer; small: the programs."""
    sides = sides_of(rows)
    body = []
    for task in dict.fromkeys(row["task"] for row in rows):
        cells = []
        for side in sides:
            for row in rows:
                if row["side"] == side and row["task"] == task:
                    mark = "R" if row["right"] else "x" if row["success"] else "-"
                    cells.append(mark + " " + "".join(map(letter, row["programs"])))
        body.append((task, *cells, *[""] * (len(sides) - len(cells))))
    table(("task", *sides), body)


def letter(program):
    if program["right"]:
        return "r"
    return {"ok": "w", "repeated": "=", "no_code": "?"}.get(program["status"], "e")


def show(rows, details=False):
    summary(rows)
    print("\nattempt by attempt")
    attempts(rows)
    print("\nhow well it knows")
    calibration(rows)
    if details:
        print("\nR right, x wrong, - no answer; programs: r right, w wrong, e failed, = as before")
        by_task(rows)
