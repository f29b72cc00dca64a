//! Eigenvalues of symmetric matrices and singular values. All loops run along rows; no instruction set rounds otherwise
//! than another.

use super::qr::{power_below, qr, qr_work, reflect, reflector};
use crate::isa::{by_isa, Isa, Level};

/// Iterations for an eigenvalue or singular value after which a decomposition gives up.
const ITERATIONS: usize = 100;
/// Negligible beside numbers near 1; the square root of a larger number has all its digits.
const NOTHING: f64 = 1e-280;
const LANES: usize = 8;

/// Eigenvalues, in no order, and eigenvectors one after the other.
pub struct Eigen {
    pub values: Vec<f64>,
    pub vectors: Vec<f64>,
}

/// The eigenvalues of the symmetric n x n matrix with the lower triangle of `a`; `None` if the iteration does not converge.
///
/// Reflections make it tridiagonal, implicit QL steps make it diagonal (A. Dubrulle, R. S. Martin, J. H. Wilkinson, The
/// implicit QL algorithm, 1968).
pub fn symmetric_eigen(isa: Isa, a: &[f64], n: usize) -> Option<Eigen> {
    let mut work: Vec<f64> = (0..n * n).map(|i| a[(i / n).max(i % n) * n + (i / n).min(i % n)]).collect();
    let scale = power_below(&work);
    work.iter_mut().for_each(|x| *x *= scale);
    let (mut diagonal, mut beside, mut vectors) = (vec![0.0; n], vec![0.0; n], vec![0.0; n * n]);
    tridiagonal(&mut work, n, &mut diagonal, &mut beside, &mut vectors);
    for first in 0..n {
        let mut iterations = 0;
        loop {
            let negligible =
                |i: &usize| beside[*i].abs() <= f64::EPSILON * (diagonal[*i].abs() + diagonal[*i + 1].abs());
            let last = (first..n - 1).find(negligible).unwrap_or(n - 1);
            if last == first {
                break;
            }
            iterations += 1;
            if iterations > ITERATIONS {
                return None;
            }
            implicit_step(isa, &mut diagonal, &mut beside, (first, last), &mut vectors, n);
        }
    }
    diagonal.iter_mut().for_each(|value| *value /= scale);
    Some(Eigen { values: diagonal, vectors })
}

/// The diagonal, the numbers beside it, and the vectors in whose basis the matrix has this form, one after the other.
fn tridiagonal(a: &mut [f64], n: usize, diagonal: &mut [f64], beside: &mut [f64], basis: &mut [f64]) {
    let (mut vectors, mut taus, mut product) = (vec![0.0; n * n], vec![0.0; n], vec![0.0; n]);
    for k in 0..n.saturating_sub(1) {
        let size = n - k - 1;
        let v = &mut vectors[k * n..k * n + size];
        v.iter_mut().enumerate().for_each(|(i, v)| *v = a[(k + 1 + i) * n + k]);
        (taus[k], beside[k]) = mirror(v);
        if taus[k] == 0.0 {
            continue;
        }
        // From both sides: A - v·wᵀ - w·vᵀ, where w = p - tau/2·(pᵀv)·v and p = tau·A·v.
        let w = &mut product[..size];
        let row = |i: usize| (k + 1 + i) * n + k + 1;
        w.iter_mut().enumerate().for_each(|(i, w)| *w = taus[k] * dot_lanes(&a[row(i)..row(i) + size], v));
        let half = 0.5 * taus[k] * dot_lanes(w, v);
        w.iter_mut().zip(&*v).for_each(|(w, v)| *w -= half * v);
        for i in 0..size {
            let (vi, wi) = (v[i], w[i]);
            let row = a[row(i)..row(i) + size].iter_mut();
            row.zip(v.iter().zip(&*w)).for_each(|(x, (v, w))| *x -= vi * w + wi * v);
        }
    }
    (0..n).for_each(|i| diagonal[i] = a[i * n + i]);
    // The product of the reflections, of which the rows of the transposed one are wanted.
    let q = a;
    q.fill(0.0);
    (0..n).for_each(|i| q[i * n + i] = 1.0);
    for k in (0..n.saturating_sub(1)).rev().filter(|k| taus[*k] != 0.0) {
        reflect(q, n, k + 1, &vectors[k * n..k * n + n - k - 1], taus[k], &mut product);
    }
    (0..n * n).for_each(|i| basis[i] = q[i % n * n + i / n]);
}

/// One QL step with a shift on the block from `first` to `last`, from its end to its beginning.
fn implicit_step(isa: Isa, d: &mut [f64], e: &mut [f64], (first, last): (usize, usize), vectors: &mut [f64], n: usize) {
    let ratio = (d[first + 1] - d[first]) / (2.0 * e[first]);
    let shift = e[first] / (ratio + libm::hypot(ratio, 1.0).copysign(ratio));
    let mut g = d[last] - d[first] + shift;
    let (mut s, mut c, mut moved) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let r = libm::hypot(f, g);
        e[i + 1] = r;
        if r == 0.0 {
            // The block falls into two.
            d[i + 1] -= moved;
            e[last] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - moved;
        let r = (d[i] - g) * s + 2.0 * c * b;
        moved = s * r;
        d[i + 1] = g + moved;
        g = c * r - b;
        let (above, below) = vectors[i * n..(i + 2) * n].split_at_mut(n);
        unsafe { rotate(isa, above, below, c, s) };
    }
    d[first] -= moved;
    e[first] = g;
    e[last] = 0.0;
}

/// Singular values, in no order, with the left vectors of m and the right vectors of n numbers one after the other.
pub struct Singular {
    pub values: Vec<f64>,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

/// The singular values of the m x n matrix with the rows of `a`; `None` if the iteration does not converge.
///
/// Reflections from both sides leave two diagonals, QR steps one (G. H. Golub, C. Reinsch, Singular value decomposition and
/// least squares solutions, 1970).
pub fn singular(isa: Isa, a: &[f64], m: usize, n: usize) -> Option<Singular> {
    if m < n {
        let turned: Vec<f64> = (0..m * n).map(|i| a[i % m * n + i / m]).collect();
        let Singular { values, left, right } = singular(isa, &turned, n, m)?;
        return Some(Singular { values, left: right, right: left });
    }
    let scale = power_below(a);
    let mut work: Vec<f64> = a.iter().map(|x| scale * x).collect();
    if m > 2 * n {
        // For a tall matrix: the vectors of R, multiplied by Q.
        let (mut q, mut r) = (vec![0.0; m * n], vec![0.0; n * n]);
        qr(&mut work, (m, n), &mut q, &mut r, &mut vec![0.0; qr_work(m, n)]);
        let Singular { mut values, left, right } = singular(isa, &r, n, n)?;
        values.iter_mut().for_each(|value| *value /= scale);
        let left = (0..n * m).map(|i| dot_lanes(&q[i % m * n..][..n], &left[i / m * n..][..n])).collect();
        return Some(Singular { values, left, right });
    }
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    let (mut left, mut right) = (vec![0.0; n * m], vec![0.0; n * n]);
    unsafe { bidiagonal(isa, &mut work, m, n, &mut d, &mut e, &mut left, &mut right) };
    let mut last = n - 1;
    let mut iterations = 0;
    while last > 0 {
        let negligible = |i: &usize| e[*i].abs() <= (f64::EPSILON * (d[*i].abs() + d[*i + 1].abs())).max(NOTHING);
        let first = (0..last).rev().find(negligible).map_or(0, |i| i + 1);
        if first == last {
            (last, iterations) = (last - 1, 0);
            continue;
        }
        iterations += 1;
        if iterations > ITERATIONS {
            return None;
        }
        let chase = Chase { isa, left: &mut left, m, right: &mut right, n };
        chase.step(&mut d[first..=last], &mut e[first..last], first);
    }
    for (value, right) in d.iter_mut().zip(right.chunks_mut(n)) {
        right.iter_mut().for_each(|x| *x *= 1f64.copysign(*value));
        *value = value.abs() / scale;
    }
    Some(Singular { values: d, left, right })
}

by_isa! {
    fn bidiagonal(
        a: &mut [f64], m: usize, n: usize, d: &mut [f64], e: &mut [f64], left: &mut [f64], right: &mut [f64],
    ) => bidiagonal_body, wide if false
}

/// The diagonal and the numbers right of it, and the vectors in whose bases the matrix, of m >= n rows, has this form.
#[inline(always)]
unsafe fn bidiagonal_body<L: Level>(
    a: &mut [f64],
    m: usize,
    n: usize,
    d: &mut [f64],
    e: &mut [f64],
    left: &mut [f64],
    right: &mut [f64],
) {
    let (mut columns, mut rows, mut product) = (vec![0.0; n * m], vec![0.0; n * n], vec![0.0; n]);
    let (mut column_taus, mut row_taus) = (vec![0.0; n], vec![0.0; n]);
    for k in 0..n {
        let v = &mut columns[k * m..(k + 1) * m - k];
        v.iter_mut().enumerate().for_each(|(i, v)| *v = a[(k + i) * n + k]);
        (column_taus[k], d[k]) = mirror(v);
        let w = &mut product[k + 1..];
        w.fill(0.0);
        for (row, v) in a[k * n..].chunks(n).zip(&*v) {
            w.iter_mut().zip(&row[k + 1..]).for_each(|(w, x)| *w += v * x);
        }
        w.iter_mut().for_each(|w| *w *= column_taus[k]);
        let (row, below) = a[k * n..].split_at_mut(n);
        let u = &mut rows[k * n..(k + 1) * n - k - 1];
        u.iter_mut().zip(row[k + 1..].iter().zip(&*w)).for_each(|(u, (x, w))| *u = x - v[0] * w);
        if u.is_empty() {
            break;
        }
        (row_taus[k], e[k]) = mirror(u);
        for (row, v) in below.chunks_mut(n).zip(&v[1..]) {
            let row = &mut row[k + 1..];
            row.iter_mut().zip(&*w).for_each(|(x, w)| *x -= v * w);
            take(row, row_taus[k] * dot_lanes(row, u), u);
        }
    }
    // The products of the reflections, transposed.
    for (to, vectors, taus, width, skip) in [(left, columns, column_taus, m, 0), (right, rows, row_taus, n, 1)] {
        to.fill(0.0);
        (0..n).for_each(|i| to[i * width + i] = 1.0);
        for k in (0..n).rev().filter(|k| taus[*k] != 0.0) {
            let v = &vectors[k * width..(k + 1) * width - k - skip];
            for row in to[(k + skip) * width..].chunks_mut(width) {
                let row = &mut row[k + skip..];
                take(row, taus[k] * dot_lanes(row, v), v);
            }
        }
    }
}

/// x - factor·y in the place of x.
#[inline(always)]
fn take(x: &mut [f64], factor: f64, y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x -= factor * y);
}

/// A vector becomes its [`reflector`]; gives tau, and the component that the reflection leaves.
fn mirror(v: &mut [f64]) -> (f64, f64) {
    let (scale, first) = (power_below(v), v[0]);
    let tau = reflector(v);
    (tau, if tau == 0.0 { first } else { first - v[0] / scale })
}

/// The vectors that follow the rotations of QR steps.
struct Chase<'a> {
    isa: Isa,
    left: &'a mut [f64],
    m: usize,
    right: &'a mut [f64],
    n: usize,
}

impl Chase<'_> {
    /// One QR step on a block, whose first row is row `at` of the matrix.
    fn step(mut self, d: &mut [f64], e: &mut [f64], at: usize) {
        let last = e.len();
        // The smaller singular value of the last 2 x 2 numbers.
        let (f, g, h) = (d[last - 1].abs(), e[last - 1], d[last].abs());
        let shift = 2.0 * h * (f / (libm::hypot(f + h, g) + libm::hypot(f - h, g)));
        let largest = d.iter().chain(&*e).fold(0.0, |most: f64, x| most.max(x.abs()));
        if d.iter().any(|x| x.abs() <= f64::EPSILON * largest) || shift <= 1e-8 * d[0].abs() {
            self.unshifted(d, e, at);
        } else {
            self.shifted(d, e, at, shift);
        }
    }

    fn shifted(&mut self, d: &mut [f64], e: &mut [f64], at: usize, shift: f64) {
        let last = e.len();
        let (mut f, mut g) = ((d[0].abs() - shift) * (1f64.copysign(d[0]) + shift / d[0]), e[0]);
        for i in 0..last {
            let (c, s, r) = rotation(f, g);
            if i > 0 {
                e[i - 1] = r;
            }
            (f, e[i]) = (c * d[i] + s * e[i], c * e[i] - s * d[i]);
            (g, d[i + 1]) = (s * d[i + 1], c * d[i + 1]);
            self.turn_right(at + i, c, s);
            let (c, s, r) = rotation(f, g);
            d[i] = r;
            (f, d[i + 1]) = (c * e[i] + s * d[i + 1], c * d[i + 1] - s * e[i]);
            if i + 1 < last {
                (g, e[i + 1]) = (s * e[i + 1], c * e[i + 1]);
            }
            self.turn_left(at + i, c, s);
        }
        e[last - 1] = f;
    }

    /// Without a shift, and without differences: a zero of the diagonal becomes one beside it (J. Demmel, W. Kahan, Accurate
    /// singular values of bidiagonal matrices, 1990).
    fn unshifted(&mut self, d: &mut [f64], e: &mut [f64], at: usize) {
        let last = e.len();
        let (mut c, mut left) = (1.0, (1.0, 0.0));
        for i in 0..last {
            let (cosine, s, r) = rotation(d[i] * c, e[i]);
            c = cosine;
            if i > 0 {
                e[i - 1] = left.1 * r;
            }
            self.turn_right(at + i, c, s);
            let (cosine, sine, r) = rotation(left.0 * r, d[i + 1] * s);
            (left, d[i]) = ((cosine, sine), r);
            self.turn_left(at + i, cosine, sine);
        }
        let rest = d[last] * c;
        (d[last], e[last - 1]) = (rest * left.0, rest * left.1);
    }

    fn turn_left(&mut self, i: usize, c: f64, s: f64) {
        let (x, y) = self.left[i * self.m..(i + 2) * self.m].split_at_mut(self.m);
        unsafe { rotate(self.isa, x, y, c, -s) };
    }

    fn turn_right(&mut self, i: usize, c: f64, s: f64) {
        let (x, y) = self.right[i * self.n..(i + 2) * self.n].split_at_mut(self.n);
        unsafe { rotate(self.isa, x, y, c, -s) };
    }
}

/// Cosine and sine of the rotation that leaves only the first of two numbers, and what is left.
fn rotation(f: f64, g: f64) -> (f64, f64, f64) {
    if g == 0.0 {
        return (1.0, 0.0, f);
    }
    let square = f * f + g * g;
    let r = if square > NOTHING { square.sqrt() } else { libm::hypot(f, g) };
    (f / r, g / r, r)
}

by_isa! { fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) => rotate_body, wide if false }

/// c·x - s·y and s·x + c·y in the place of x and y.
#[inline(always)]
unsafe fn rotate_body<L: Level>(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
}

/// The inner product, of which each lane adds every eighth.
#[inline(always)]
fn dot_lanes(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (a, b) = (a.chunks(LANES), b.chunks(LANES));
    for (a, b) in a.zip(b) {
        if let (Ok(a), Ok(b)) = (<&[f64; LANES]>::try_from(a), <&[f64; LANES]>::try_from(b)) {
            (0..LANES).for_each(|l| lanes[l] += a[l] * b[l]);
        } else {
            lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
        }
    }
    let half: [f64; LANES / 2] = std::array::from_fn(|l| lanes[l] + lanes[l + LANES / 2]);
    (half[0] + half[2]) + (half[1] + half[3])
}
