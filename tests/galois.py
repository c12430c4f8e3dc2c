# SPDX-License-Identifier: BSD-3-Clause
"""Compute in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, digit by digit, and storage codes from it."""

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from operator import xor

POLYNOMIAL = 0x11D


@cache
def times(a: int, b: int) -> int:
    """Multiply as polynomials over GF(2)."""
    product = reduce(xor, (a << bit for bit in range(8) if b >> bit & 1), 0)
    for bit in range(14, 7, -1):
        if product >> bit & 1:
            product ^= POLYNOMIAL << (bit - 8)
    return product


@cache
def inverse(a: int) -> int:
    return next(b for b in range(1, 256) if times(a, b) == 1)


def combined(factors: Sequence[int], blocks: Sequence[bytes]) -> bytes:
    """Return the sum of factor x block, byte by byte."""
    return bytes(
        reduce(xor, (times(factor, byte) for factor, byte in zip(factors, column, strict=True)))
        for column in zip(*blocks, strict=True)
    )


def cauchy_row(data: int, parity: int) -> list[int]:
    """Return the factors of one parity block."""
    return [inverse((data + parity) ^ column) for column in range(data)]


def solved(rows: Sequence[Sequence[int]], blocks: Sequence[bytes]) -> list[bytes]:
    """Return the data blocks from as many equations (Gauss and Jordan).

    Raises:
        StopIteration: the equations do not say.
    """
    matrix, right = [list(row) for row in rows], [bytes(block) for block in blocks]
    for column in range(len(matrix)):
        pivot = next(row for row in range(column, len(matrix)) if matrix[row][column])
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right[column], right[pivot] = right[pivot], right[column]
        scale = inverse(matrix[column][column])
        matrix[column] = [times(scale, value) for value in matrix[column]]
        right[column] = combined([scale], [right[column]])
        for row in range(len(matrix)):
            factor = matrix[row][column] if row != column else 0
            matrix[row] = [value ^ times(factor, own) for value, own in zip(matrix[row], matrix[column], strict=True)]
            right[row] = combined([1, factor], [right[row], right[column]])
    return right


def recovered(left: Mapping[int, bytes], data: int) -> list[bytes]:
    """Return the data blocks of a Cauchy code from any `data` of its blocks; data blocks are numbered first."""
    numbers = sorted(left)[-data:]
    rows = [
        [int(column == number) for column in range(data)] if number < data else cauchy_row(data, number - data)
        for number in numbers
    ]
    return solved(rows, [left[number] for number in numbers])
