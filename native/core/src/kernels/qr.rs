//! Householder's reflections, and the factorisation into Q and R by them.

/// A vector becomes the `v` of the reflection I - tau·v·vᵀ that leaves only its first component, times a power of 2.
/// Gives tau, which is 0 where nothing is to be done.
pub(super) fn reflector(v: &mut [f64]) -> f64 {
    // Sizes near 1, whose squares neither overflow nor vanish; by a power of 2, which changes no digit.
    let scale = power_below(v);
    v.iter_mut().for_each(|x| *x *= scale);
    let rest: f64 = v[1..].iter().map(|x| x * x).sum();
    if rest > 0.0 {
        let norm = (v[0] * v[0] + rest).sqrt();
        v[0] += norm.copysign(v[0]);
        2.0 / (v[0] * v[0] + rest)
    } else {
        0.0
    }
}

/// The power of 2 that brings the largest of some numbers to [1, 2); 1 if they are all 0, or not all finite.
pub(super) fn power_below(numbers: &[f64]) -> f64 {
    let largest = numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if largest > 0.0 && largest.is_finite() {
        libm::ldexp(1.0, -libm::ilogb(largest).clamp(-1023, 1022))
    } else {
        1.0
    }
}

/// I - tau·v·vᵀ applied to the rows from `from` on of a matrix of `n` columns; `w` is memory for a row.
pub(super) fn reflect(a: &mut [f64], n: usize, from: usize, v: &[f64], tau: f64, w: &mut [f64]) {
    let w = &mut w[..n];
    w.fill(0.0);
    for (row, v) in a[from * n..].chunks(n).zip(v) {
        w.iter_mut().zip(row).for_each(|(w, x)| *w += v * x);
    }
    for (row, v) in a[from * n..].chunks_mut(n).zip(v) {
        let factor = tau * v;
        row.iter_mut().zip(&*w).for_each(|(x, w)| *x -= factor * w);
    }
}

/// Numbers that [`qr`] needs beside Q and R: the reflectors with their factors, and a row.
pub(super) fn qr_work(m: usize, n: usize) -> usize {
    let k = m.min(n);
    m * k + k + n.max(k)
}

/// Q and R; the diagonal of R is made not negative. Gives the determinant of a square Q, else 1.
pub(super) fn qr(a: &mut [f64], (m, n): (usize, usize), q: &mut [f64], r: &mut [f64], work: &mut [f64]) -> f64 {
    let k = m.min(n);
    let (vectors, rest) = work.split_at_mut(m * k);
    let (taus, row) = rest.split_at_mut(k);
    let mut sign = 1.0;
    for j in 0..k {
        let v = &mut vectors[j * m..(j + 1) * m - j];
        v.iter_mut().enumerate().for_each(|(i, v)| *v = a[(j + i) * n + j]);
        taus[j] = reflector(v);
        if taus[j] != 0.0 {
            reflect(a, n, j, v, taus[j], row);
            sign = -sign;
        }
    }
    q.fill(0.0);
    (0..k).for_each(|i| q[i * k + i] = 1.0);
    for j in (0..k).rev().filter(|j| taus[*j] != 0.0) {
        reflect(q, k, j, &vectors[j * m..(j + 1) * m - j], taus[j], row);
    }
    r.fill(0.0);
    for i in 0..k {
        let flip = if a[i * n + i] < 0.0 { -1.0 } else { 1.0 };
        sign *= flip;
        (i..n).for_each(|j| r[i * n + j] = flip * a[i * n + j]);
        (0..m).for_each(|row| q[row * k + i] *= flip);
    }
    if m == n {
        sign
    } else {
        1.0
    }
}
