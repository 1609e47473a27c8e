"""Values of leaves."""

from __future__ import annotations

from unbiasedgbm.kernels import kernel


@kernel
def path_values(left, g, h, reg_lambda, smooth, value):
    """Newton steps of all nodes, each pulled towards its parent's: (s·v_parent − G) / (H + λ + s).

    A leaf of few rows says little by itself; what its parent says of it is worth s more of hessian.

    Parameters
    ----------
    left : ndarray of shape (m,), int64
        Left child; the right one is the next, and both come after their parent. −1 for a leaf.
    g, h : ndarrays of shape (m,), float64
        Sums of the leaves' gradients and hessians; those of the other nodes are filled in.
    reg_lambda, smooth : float
        λ and s.
    value : ndarray of shape (m,), float64
        Filled.
    """
    m = left.size
    for back in range(m):
        k = m - 1 - back
        if left[k] >= 0:
            g[k] = g[left[k]] + g[left[k] + 1]
            h[k] = h[left[k]] + h[left[k] + 1]
    value[0] = -g[0] / max(h[0] + reg_lambda, 1e-300)
    for k in range(m):
        if left[k] >= 0:
            for child in range(left[k], left[k] + 2):
                value[child] = (smooth * value[k] - g[child]) / max(h[child] + reg_lambda + smooth, 1e-300)
