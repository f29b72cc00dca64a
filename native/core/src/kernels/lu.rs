//! Elimination with partial pivoting (Golub and Van Loan, "Matrix Computations", 3.4.1), with the pivots of LAPACK's getrf.

/// Columns that are eliminated together: a block of rows stays in cache while the rest of the matrix goes by once.
const WIDTH: usize = 32;

/// Packs L, whose diagonal of ones is left out, and U into a row-major square matrix, with `order` the rows of the matrix in
/// the order in which they became those of L U. Returns the sign of that permutation. A column without a pivot is left as it is.
/// The steps that reach an element come in order, whatever the blocks are, so the reference has the same bits.
pub fn lu(a: &mut [f64], n: usize, order: &mut [f64]) -> f64 {
    order.iter_mut().enumerate().for_each(|(i, place)| *place = i as f64);
    let mut sign = 1.0;
    for from in (0..n).step_by(WIDTH) {
        let to = n.min(from + WIDTH);
        for column in from..to {
            let row = pivot(a, n, column);
            if row != column {
                let (before, after) = a.split_at_mut(row * n);
                before[column * n..(column + 1) * n].swap_with_slice(&mut after[..n]);
                order.swap(column, row);
                sign = -sign;
            }
            let size = a[column * n + column];
            if size != 0.0 {
                (column + 1..n).for_each(|row| a[row * n + column] /= size);
                eliminate(a, n, column..column + 1, column + 1..to);
            }
        }
        eliminate(a, n, from..to, to..n);
    }
    sign
}

/// The row of the largest number in a column from the diagonal on: the first row of equal numbers; NaN counts as largest.
fn pivot(a: &[f64], n: usize, column: usize) -> usize {
    let mut best = column;
    for row in column + 1..n {
        let (x, most) = (a[row * n + column].abs(), a[best * n + column].abs());
        if x > most || (x.is_nan() && !most.is_nan()) {
            best = row;
        }
    }
    best
}

/// Takes multiples of the pivots' rows from all rows below each, in the columns of `over`.
fn eliminate(a: &mut [f64], n: usize, pivots: std::ops::Range<usize>, over: std::ops::Range<usize>) {
    if over.is_empty() {
        return;
    }
    for row in pivots.start + 1..n {
        let (before, mine) = a.split_at_mut(row * n);
        let (factors, rest) = mine[..n].split_at_mut(over.start);
        let rest = &mut rest[..over.len()];
        for pivot in pivots.start..pivots.end.min(row) {
            let from = &before[pivot * n + over.start..pivot * n + over.end];
            // A column without a pivot has only zeros below it.
            if before[pivot * n + pivot] != 0.0 {
                let factor = factors[pivot];
                rest.iter_mut().zip(from).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
}
