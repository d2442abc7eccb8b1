"""More rows of restored_rows.py: databases of SQLite. None may come to harm."""
from restored_rows import ANY, Row

DATABASES = [
    Row("a database in memory", """
        import sqlite3
        memory = sqlite3.connect(":memory:")
        memory.execute("create table t(a)"); memory.execute("insert into t values (1)")
        """, "memory.execute('insert into t values (2)'); memory.commit()", """
        assert memory.in_transaction and memory.execute("select * from t").fetchall() == [(1,)]
        memory.commit(); memory.execute("insert into t values (3)"); memory.commit()
        """),
    Row("a database outside of a transaction", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a)")
        file.execute("insert into t values (1)"); file.commit()
        """, "file.execute('insert into t values (2)'); file.commit()", """
        assert file.execute("select * from t").fetchall() == [(1,), (2,)]
        file.execute("insert into t values (3)"); file.commit()
        assert file.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert type(file) is sqlite3.Connection and repr(file).startswith("<sqlite3.Connection")
        """),
    Row("a transaction that nobody has touched", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a)")
        file.execute("insert into t values (1)")
        """, "x = 1", """
        assert file.in_transaction
        file.commit()
        new = sqlite3.connect("a.db")
        assert new.execute("select * from t").fetchall() == [(1,)]
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        """),
    Row("a transaction that was committed", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a)"); file.commit()
        file.execute("insert into t values (1)")
        """, "file.execute('insert into t values (2)'); file.commit()", """
        try:
            file.commit()
            raise AssertionError("it can be used")
        except sqlite3.ProgrammingError:
            pass
        new = sqlite3.connect("a.db", timeout=1)
        assert new.execute("select * from t").fetchall() == [(1,), (2,)]
        new.execute("insert into t values (3)"); new.commit()
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        """, {"transactions": ANY}),
    Row("a transaction on a log that was committed", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("pragma journal_mode=wal")
        file.execute("create table t(a)"); file.commit()
        file.execute("insert into t values (1)")
        """, "file.execute('insert into t values (2)'); file.commit()", """
        try:
            file.commit()
            raise AssertionError("it can be used")
        except sqlite3.ProgrammingError:
            pass
        new = sqlite3.connect("a.db", timeout=1)
        assert new.execute("select * from t").fetchall() == [(1,), (2,)]
        new.execute("insert into t values (3)"); new.commit()
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        """, {"transactions": ANY}),
    Row("a transaction that a death has left half written", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a, b)")
        rows = [(n, "x" * 500) for n in range(3000)]
        file.executemany("insert into t values (?, ?)", rows); file.commit()
        file.execute("insert into t values (-1, '')")
        """, """
        file.execute("pragma cache_size = 2"); file.execute("update t set a = a + 1, b = b || 'y'")
        import os
        assert os.path.getsize("a.db-journal") > 100_000
        """, """
        import os
        assert os.path.getsize("a.db-journal") > 100_000 and len(os.listdir()) == 2
        new = sqlite3.connect("a.db", timeout=1)
        assert new.execute("select * from t").fetchall() == rows
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        new.execute("insert into t values (1, 'z')"); new.commit()
        assert os.listdir() == ["a.db"]
        """, {"transactions": ANY}),
    Row("a transaction that was in the file, and was committed", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a, b)")
        file.executemany("insert into t values (?, ?)", [(n, "x" * 500) for n in range(3000)])
        file.commit(); file.execute("pragma cache_size = 2")
        file.execute("update t set a = a + 1, b = b || 'y'")
        """, """
        file.commit(); file.execute("delete from t where a % 2"); file.commit(); file.close()
        """, """
        new = sqlite3.connect("a.db", timeout=1)
        assert new.execute("select count(*), min(b), max(b) from t").fetchall() == [
            (1500, "x" * 500 + "y", "x" * 500 + "y")]
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        """, {"transactions": ANY}),
    Row("a cursor in the midst of a table", """
        import sqlite3
        file = sqlite3.connect("a.db"); file.execute("create table t(a)")
        file.executemany("insert into t values (?)", [(n,) for n in range(5000)]); file.commit()
        cursor = file.execute("select a from t"); cursor.fetchone()
        """, """
        other = sqlite3.connect("a.db")
        cursor.fetchall(); other.execute("delete from t where a % 2"); other.commit()
        """, """
        try:
            file.execute("select 1")
            raise AssertionError("it can be used")
        except sqlite3.ProgrammingError:
            pass
        new = sqlite3.connect("a.db", timeout=1)
        assert new.execute("select count(*) from t").fetchall() == [(2500,)]
        assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
        """, {"transactions": ANY}),
]
