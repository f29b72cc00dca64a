"""Linear algebra by NumPy and SciPy, and estimators of scikit-learn, on the data of heddle-linalg.ts."""

import platform
import time

import numpy as np
import scipy
import scipy.linalg
import scipy.sparse
import sklearn
from link import digest, read_spec, serve
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC


def hashed(length, seed):
    """Uniform numbers in [0, 1): the hash of a position, a block at a time."""
    values = np.empty(length)
    offset = np.uint32((seed * 0x9E3779B9) & 0xFFFFFFFF)
    for first in range(0, length, 1 << 20):
        end = min(length, first + (1 << 20))
        bits = np.arange(first, end, dtype=np.uint32) + offset
        bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
        bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
        values[first:end] = (bits ^ (bits >> np.uint32(16))) / 2.0**32
    return values


def uniform(rows, columns, seed):
    return hashed(rows * columns, seed).reshape(rows, columns)


def sparse(sizes):
    rows, columns, per_row = sizes["rows"], sizes["columns"], sizes["entries"]
    count = rows * per_row
    to = np.floor((np.arange(count) % per_row + hashed(count, 2)) * columns / per_row).astype(np.int32)
    starts = np.arange(0, count + 1, per_row, dtype=np.int32)
    return scipy.sparse.csr_array((hashed(count, 3), to, starts), shape=(rows, columns))


def conjugate_gradients(x, y, count):
    # SciPy's transpose of CSR is CSC, a view.
    across = x.T

    def run():
        w = np.zeros((x.shape[1], 1))
        r = across @ y
        p, norm = r, float((r**2).sum())
        for _ in range(count):
            q = across @ (x @ p) + p
            rate = norm / float((p * q).sum())
            w, r = w + p * rate, r - q * rate
            following = float((r**2).sum())
            p, norm = r + p * (following / norm), following
        return [digest(w)]

    return run


def direct(x, y):
    def run():
        gram = x.T @ x
        gram.flat[:: x.shape[1] + 1] += 1
        return [digest(scipy.linalg.solve(gram, x.T @ y, assume_a="pos"))]

    return run


def kmeans(x, count):
    def run():
        return [KMeans(20, init=x[:20], n_init=1, max_iter=count, tol=0).fit(x).inertia_]

    return run


def logistic(x):
    y = np.argmax(x[:, :10] + x[:, 10:20] * 0.5, 1)

    def run():
        model = LogisticRegression(tol=1e-4, max_iter=1000).fit(x, y)
        return [log_loss(y, model.predict_proba(x))]

    return run


def svm(x):
    y = np.sign(x[:, 0] + x[:, 1] * 0.5 + x[:, 2] - 1.25)

    def run():
        model = LinearSVC(dual=False, tol=1e-4).fit(x, y)
        missed = np.maximum(0, 1 - model.decision_function(x) * y)
        return [float((missed**2).sum() + ((model.coef_**2).sum() + (model.intercept_**2).sum()) / 2)]

    return run


def pca(x):
    def run():
        return [digest(PCA(10, svd_solver="covariance_eigh").fit(x).explained_variance_)]

    return run


def mmchain(x, count):
    def run():
        v = np.ones((x.shape[1], 1))
        for _ in range(count):
            q = x.T @ (x @ v)
            v = q / q.max()
        return [digest(v)]

    return run


def wsloss(sizes):
    x = sparse(sizes).tocoo()
    u, v = uniform(sizes["rows"], 20, 5), np.ascontiguousarray(uniform(20, sizes["columns"], 6).T)

    def run():
        return [float(((x.data - np.einsum("ij,ij->i", u[x.row], v[x.col])) ** 2).sum())]

    return run


def problem(sizes):
    name, rows, columns, count = sizes["problem"], sizes["rows"], sizes["columns"], sizes["count"]
    if name == "wsloss":
        return wsloss(sizes)
    if name == "cg-sparse":
        return conjugate_gradients(sparse(sizes), uniform(rows, 1, 4), count)
    x = uniform(rows, columns, 1)
    if name == "cg-dense":
        return conjugate_gradients(x, uniform(rows, 1, 4), count)
    if name == "direct":
        return direct(x, uniform(rows, 1, 4))
    if name in ("kmeans", "mmchain"):
        return {"kmeans": kmeans, "mmchain": mmchain}[name](x, count)
    return {"logistic": logistic, "svm": svm, "pca": pca}[name](x)


class Linalg:
    """One problem, on data that is there."""

    def __init__(self, spec):
        self.versions = {
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "sklearn": sklearn.__version__,
            "python": platform.python_version(),
        }
        self.run = problem(spec["sizes"])

    def check(self):
        return self.run()

    def steps(self, count):
        milliseconds = []
        for _ in range(count):
            started = time.perf_counter()
            [value] = self.run()
            milliseconds.append(1000 * (time.perf_counter() - started))
        return {"milliseconds": milliseconds, "losses": [value, value]}


def main():
    spec = read_spec()
    serve(spec, Linalg(spec))


if __name__ == "__main__":
    main()
