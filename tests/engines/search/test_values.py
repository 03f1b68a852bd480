import ast
from pathlib import Path

import numpy as np
import pytest

from openvibe.engines.search.values import dot

ROOT = Path(__file__).parents[3]


def test_a_product_says_nothing_about_floating_point() -> None:
    """Warnings are errors in tests: the plain product of these raises one."""
    left, right = np.array([[np.inf, 1], [2, 3]], np.float32), np.array([0, 1], np.float32)
    with pytest.raises(RuntimeWarning):
        np.matmul(left, right)
    assert np.array_equal(dot(left, right), [np.nan, 3], equal_nan=True)


def test_products_of_rows_and_matrices_are_numpys_own() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert dot(matrix, matrix.T).tolist() == [[5, 14], [14, 50]]
    assert float(dot(matrix[0], matrix[1])) == 14
    assert dot(matrix > 0, matrix[1]).tolist() == [9, 12]


@pytest.mark.parametrize("folder", ["openvibe", "memory", "knowledge", "agents"])
def test_every_product_is_made_by_it(folder: str) -> None:
    """What BLAS reports now and then would stand in logs, and fail a test once in many thousand."""
    products = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))
        or (isinstance(node, ast.Attribute) and node.attr in ("matmul", "dot", "vdot", "inner", "tensordot"))
    ]
    made_by_dot = [each for each in products if each.startswith("openvibe/engines/search/values.py:")]
    assert products == made_by_dot
    assert len(made_by_dot) == (folder == "openvibe")
