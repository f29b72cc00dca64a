//! Eigenvalues of symmetric matrices and singular values. All loops run along rows; no instruction set rounds otherwise
//! than another.

use super::qr::{power_below, qr, qr_work, reflect, reflector};
use crate::isa::{by_isa, Isa, Level};

/// Turns of an eigenvalue, and sweeps over all pairs of rows, after which a decomposition gives up.
const TURNS: usize = 100;
const SWEEPS: usize = 60;
/// Squares of norms, beside numbers near 1, below which a row is as good as 0: products of two must not vanish.
const NOTHING: f64 = 1e-280;
const LANES: usize = 8;

/// Eigenvalues, in no order, and eigenvectors one after the other.
pub struct Eigen {
    pub values: Vec<f64>,
    pub vectors: Vec<f64>,
}

/// Of the symmetric n x n matrix whose lower triangle is that of the rows of `a`; none if it does not converge.
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
        let mut turns = 0;
        loop {
            let negligible =
                |i: &usize| beside[*i].abs() <= f64::EPSILON * (diagonal[*i].abs() + diagonal[*i + 1].abs());
            let last = (first..n - 1).find(negligible).unwrap_or(n - 1);
            if last == first {
                break;
            }
            turns += 1;
            if turns > TURNS {
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
        let (scale, first) = (power_below(v), v[0]);
        taus[k] = reflector(v);
        if taus[k] == 0.0 {
            beside[k] = first;
            continue;
        }
        beside[k] = first - v[0] / scale;
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

/// Of the m x n matrix with the rows of `a`; none if it does not converge.
///
/// Rotations make the rows of R of A = Q·R orthogonal (M. R. Hestenes, Inversion of matrices by biorthogonalization, 1958), the
/// longest first (P. P. M. de Rijk, A one-sided Jacobi algorithm for computing the singular value decomposition, 1989).
pub fn singular(isa: Isa, a: &[f64], m: usize, n: usize) -> Option<Singular> {
    if m < n {
        let turned: Vec<f64> = (0..m * n).map(|i| a[i % m * n + i / m]).collect();
        let Singular { values, left, right } = singular(isa, &turned, n, m)?;
        return Some(Singular { values, left: right, right: left });
    }
    let scale = power_below(a);
    let mut work: Vec<f64> = a.iter().map(|x| scale * x).collect();
    let (mut q, mut rows) = (vec![0.0; m * n], vec![0.0; n * n]);
    qr(&mut work, (m, n), &mut q, &mut rows, &mut vec![0.0; qr_work(m, n)]);
    let mut turns = vec![0.0; n * n];
    (0..n).for_each(|i| turns[i * n + i] = 1.0);
    let mut squares = vec![0.0; n];
    if !(0..SWEEPS).any(|_| unsafe { sweep(isa, &mut rows, &mut turns, &mut squares, n) }) {
        return None;
    }
    let mut values = vec![0.0; n];
    let mut missing = Vec::new();
    for (i, row) in rows.chunks_mut(n).enumerate() {
        // Of a row that is as good as 0 there is a norm, but no direction.
        if squares[i] <= NOTHING {
            missing.push(i);
        }
        let near = power_below(row);
        row.iter_mut().for_each(|x| *x *= near);
        let norm = dot_lanes(row, row).sqrt();
        values[i] = norm / near / scale;
        row.iter_mut().for_each(|x| *x = if squares[i] <= NOTHING { 0.0 } else { *x / norm });
    }
    missing.into_iter().for_each(|i| complete(&mut rows, n, i));
    let left = (0..n * m).map(|i| dot_lanes(&q[i % m * n..][..n], &turns[i / m * n..][..n])).collect();
    Some(Singular { values, left, right: rows })
}

by_isa! {
    fn sweep(rows: &mut [f64], turns: &mut [f64], squares: &mut [f64], n: usize) -> bool => sweep_body, wide if false
}

/// Rotates all pairs of rows that are not orthogonal yet; says whether there was none.
#[inline(always)]
unsafe fn sweep_body<L: Level>(rows: &mut [f64], turns: &mut [f64], squares: &mut [f64], n: usize) -> bool {
    let tolerance = f64::EPSILON * (n as f64).sqrt();
    let mut done = true;
    rows.chunks(n).zip(&mut *squares).for_each(|(row, square)| *square = dot_lanes(row, row));
    for p in 0..n {
        let longest = (p..n).fold(p, |best, i| if squares[i] > squares[best] { i } else { best });
        if longest != p {
            squares.swap(p, longest);
            for matrix in [&mut *rows, &mut *turns] {
                let (before, from) = matrix.split_at_mut(longest * n);
                before[p * n..(p + 1) * n].swap_with_slice(&mut from[..n]);
            }
        }
        let (head, tail) = rows.split_at_mut((p + 1) * n);
        let (own, others) = turns.split_at_mut((p + 1) * n);
        let (row, own) = (&mut head[p * n..], &mut own[p * n..]);
        for (i, (other, turn)) in tail.chunks_mut(n).zip(others.chunks_mut(n)).enumerate() {
            let (alpha, beta) = (squares[p], squares[p + 1 + i]);
            let gamma = dot_lanes(row, other);
            if beta <= NOTHING || gamma.abs() <= tolerance * alpha.sqrt() * beta.sqrt() {
                continue;
            }
            done = false;
            // The tangent of the smaller angle.
            let zeta = (beta - alpha) / (2.0 * gamma);
            let t = 1f64.copysign(zeta) / (zeta.abs() + libm::hypot(1.0, zeta));
            let c = 1.0 / libm::hypot(1.0, t);
            rotate_body::<L>(row, other, c, c * t);
            rotate_body::<L>(own, turn, c, c * t);
            squares[p] = alpha - t * gamma;
            squares[p + 1 + i] = (beta + t * gamma).max(0.0);
        }
    }
    done
}

/// Row `to` as a unit vector that is orthogonal to the others, of which those that are not found yet are 0.
fn complete(rows: &mut [f64], n: usize, to: usize) {
    // Of the unit vectors the one of which the others have the least.
    let taken: Vec<f64> = (0..n).map(|j| rows.chunks(n).map(|row| row[j] * row[j]).sum()).collect();
    let least = (0..n).fold(0, |best, j| if taken[j] < taken[best] { j } else { best });
    let mut made = vec![0.0; n];
    made[least] = 1.0;
    // Twice, as once leaves what rounding makes.
    for row in rows.chunks(n).chain(rows.chunks(n)) {
        let dot = dot_lanes(row, &made);
        made.iter_mut().zip(row).for_each(|(x, y)| *x -= dot * y);
    }
    let norm = dot_lanes(&made, &made).sqrt();
    rows[to * n..(to + 1) * n].iter_mut().zip(made).for_each(|(x, made)| *x = made / norm);
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
