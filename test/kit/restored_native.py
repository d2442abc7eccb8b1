"""More rows of restored_rows.py: libraries that have threads of their own, or more than Python has.

They are optional: a Python without them has nothing to try.
"""
from restored_rows import ANY, MAYBE, Row

NATIVE = [
    Row("BLAS with two threads", """
        import ctypes
        import numpy as np
        library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps")
                                   if "openblas" in line))
        for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads"):
            if hasattr(library, name): library[name](2)
        a = np.random.default_rng(1).random((600, 600)); trace = np.trace(a @ a)
        """, "a[:] = 0", """
        assert abs(np.trace(a @ a) - trace) < 1e-6
        """, {"native_threads": ANY}, needs=("numpy",)),
    Row("tables of pyarrow", """
        import pyarrow as pa, pyarrow.compute as pc
        table = pa.table({"a": list(range(100_000))}); total = pc.sum(table["a"]).as_py()
        """, "table = None", """
        assert pc.sum(table["a"]).as_py() == total
        import io, pyarrow.csv
        assert pyarrow.csv.read_csv(io.BytesIO(b"a\\n1\\n")).num_rows == 1
        """, {"native_threads": MAYBE}, needs=("pyarrow",)),
    Row("processes of joblib", """
        import joblib
        def square(n): return n * n
        first = joblib.Parallel(2)(joblib.delayed(abs)(n) for n in range(4))
        """, "first = 0", """
        assert first == [0, 1, 2, 3]
        assert joblib.Parallel(2)(joblib.delayed(abs)(n) for n in range(-3, 0)) == [3, 2, 1]
        """, {"threads": ANY, "processes": ANY, "connections": ANY}, needs=("joblib",)),
    Row("files of h5py", """
        import h5py
        file = h5py.File("a.h5", "w"); file["x"] = [1, 2, 3]; file.flush()
        """, "file['y'] = [4]; file.flush()", """
        assert list(file["x"]) == [1, 2, 3]
        file.close()
        """, needs=("h5py",)),
    Row("loops of uvloop", """
        import asyncio, uvloop
        uvloop.install()
        loop = asyncio.new_event_loop(); asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.sleep(0))
        """, "loop.run_until_complete(asyncio.sleep(0))", """
        import asyncio
        assert await asyncio.sleep(0, 5) == 5
        """, {"notes": ANY, "connections": ANY}, needs=("uvloop",)),
    Row("numba, its own threads", """
        import numba, numpy as np
        numba.config.THREADING_LAYER = "workqueue"; numba.config.NUMBA_NUM_THREADS = 2
        @numba.njit(parallel=True)
        def total(a):
            s = 0.0
            for i in numba.prange(len(a)): s += a[i]
            return s
        a = np.ones(100_000); first = total(a)
        """, "a[:] = 0", """
        assert first == 100_000 and total(a) == 100_000
        """, {"native_threads": ANY}, needs=("numba",)),
    Row("one thread of OpenMP", """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import numpy as np
        from sklearn.cluster import KMeans
        points = np.random.default_rng(0).random((500, 2)); model = KMeans(3, n_init=1).fit(points)
        """, "points[:] = 0", """
        assert len(KMeans(3, n_init=1).fit(points).cluster_centers_) == 3
        """, {"native_threads": MAYBE}, needs=("sklearn",)),
    Row("a frame of polars", """
        import polars as pl
        frame = pl.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]})
        first = frame.group_by("a").agg(pl.col("b").sum()).sort("a").rows()
        """, "frame = None", """
        assert frame["b"].sum() == 6 and frame.rows() == [(1, 1), (1, 2), (2, 3)]
        assert first == [(1, 3), (2, 3)]
        """, {"native_threads": ANY, "connections": ANY}, needs=("polars",)),
]

# What does hang: the cell is ended by its time limit, and the session lives.
HANGING = [
    Row("a group of polars", """
        import polars as pl
        frame = pl.DataFrame({"a": [1, 1, 2] * 1000, "b": [1, 2, 3] * 1000})
        first = frame.group_by("a").agg(pl.col("b").sum()).sort("a").rows()
        """, "frame = None", """
        frame.group_by("a").agg(pl.col("b").sum())
        """, {"native_threads": ANY, "connections": ANY}, needs=("polars",)),
    Row("two threads of OpenMP", """
        import numpy as np
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits
        limits = threadpool_limits(2); points = np.random.default_rng(0).random((5000, 2))
        model = KMeans(3, n_init=1).fit(points)
        """, "points[:] = 0", """
        KMeans(3, n_init=1).fit(points)
        """, {"native_threads": ANY}, needs=("sklearn", "threadpoolctl")),
]
