//! Eigenvalues and singular values: vectors are orthonormal to the last digits, and give the matrix back.

use crate::common::Random;
use heddle_core::isa::Isa;
use heddle_core::kernels::spectral::{singular, symmetric_eigen};

/// Largest difference of the products of all pairs of `n` vectors from those of a basis.
fn skewness(vectors: &[f64], length: usize) -> f64 {
    let of = |i: usize| &vectors[i * length..(i + 1) * length];
    let count = vectors.len() / length;
    let pairs = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
    pairs.fold(0.0, |most: f64, (i, j)| {
        let dot: f64 = of(i).iter().zip(of(j)).map(|(x, y)| x * y).sum();
        most.max((dot - f64::from(u8::from(i == j))).abs())
    })
}

fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |most: f64, x| most.max(x.abs()))
}

fn check_singular(a: &[f64], m: usize, n: usize, what: &str) {
    let parts = Isa::available().into_iter().map(|isa| singular(isa, a, m, n).expect(what)).collect::<Vec<_>>();
    let found = &parts[0];
    for other in &parts {
        assert!(other.values == found.values && other.left == found.left && other.right == found.right, "{what}: bits");
    }
    let k = m.min(n);
    assert!(found.values.iter().all(|s| *s >= 0.0), "{what}: {:?}", found.values);
    assert!(skewness(&found.left, m) < 1e-13, "{what}: left by {}", skewness(&found.left, m));
    assert!(skewness(&found.right, n) < 1e-13, "{what}: right by {}", skewness(&found.right, n));
    let product = |i: usize, j: usize| {
        (0..k).map(|s| found.left[s * m + i] * found.values[s] * found.right[s * n + j]).sum::<f64>()
    };
    let error = largest((0..m * n).map(|at| a[at] - product(at / n, at % n)));
    assert!(error <= 3e-14 * largest(a.iter().copied()), "{what}: off by {error}");
}

fn check_symmetric(a: &[f64], n: usize, what: &str) {
    let parts = Isa::available().into_iter().map(|isa| symmetric_eigen(isa, a, n).expect(what)).collect::<Vec<_>>();
    let found = &parts[0];
    for other in &parts {
        assert!(other.values == found.values && other.vectors == found.vectors, "{what}: bits");
    }
    assert!(skewness(&found.vectors, n) < 1e-13, "{what}: by {}", skewness(&found.vectors, n));
    let product = |i: usize, j: usize| {
        (0..n).map(|v| found.vectors[v * n + i] * found.values[v] * found.vectors[v * n + j]).sum::<f64>()
    };
    let lower = (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let error = largest(lower.map(|(i, j)| a[i * n + j] - product(i, j)));
    let size = largest((0..n).flat_map(|i| a[i * n..=i * n + i].iter().copied()));
    assert!(error <= 3e-14 * size, "{what}: off by {error}");
}

#[test]
fn random_matrices() {
    let mut random = Random(5);
    for (m, n) in [(1, 1), (1, 5), (4, 1), (2, 2), (7, 3), (3, 8), (20, 20), (33, 17), (40, 61)] {
        check_singular(&random.floats(m * n), m, n, &format!("{m} x {n}"));
    }
    for n in [1, 2, 3, 8, 21, 60] {
        check_symmetric(&random.floats(n * n), n, &format!("symmetric {n}"));
    }
}

#[test]
fn matrices_with_structure() {
    let n = 12;
    let each = |f: &dyn Fn(usize, usize) -> f64| (0..n * n).map(|at| f(at / n, at % n)).collect::<Vec<f64>>();
    let block = |i: usize, j: usize| match (i > 6, j > 6) {
        (false, false) => 1.0,
        (true, true) => 1e-200,
        _ => 0.0,
    };
    let matrices = [
        ("zero", each(&|_, _| 0.0)),
        ("identity", each(&|i, j| f64::from(u8::from(i == j)))),
        ("ones", each(&|_, _| 1.0)),
        ("rank 2", each(&|i, j| (i + 1) as f64 * (j + 1) as f64 + (i * i) as f64 * (j * j) as f64)),
        ("both signs", each(&|i, j| f64::from(u8::from(i + j == n - 1)))),
        ("tridiagonal", each(&|i, j| if i == j { 2.0 } else { -f64::from(u8::from(i.abs_diff(j) == 1)) })),
        ("nilpotent", each(&|i, j| f64::from(u8::from(i + 1 == j)))),
        ("zeros on the diagonal", each(&|i, j| f64::from(u8::from(i + 1 == j || i == j && i % 3 != 1)))),
        ("growing", each(&|i, j| 7f64.powi(i as i32 + j as i32) * (1.0 + (i * j % 5) as f64))),
        ("far apart", each(&|i, j| block(i, j) * ((3 * i * j + i) % 7) as f64)),
        ("Hilbert", each(&|i, j| 1.0 / (i + j + 1) as f64)),
        ("graded", each(&|i, j| 10f64.powi(-20 * i.max(j) as i32) * (1.0 + (i * j % 5) as f64))),
        ("huge", each(&|i, j| 1e300 * ((3 * i * j) % 7) as f64)),
        ("tiny", each(&|i, j| 1e-310 * ((3 * i * j) % 7) as f64)),
    ];
    for (what, a) in &matrices {
        let symmetric: Vec<f64> = (0..n * n).map(|at| a[(at / n).max(at % n) * n + (at / n).min(at % n)]).collect();
        check_symmetric(&symmetric, n, what);
        check_singular(a, n, n, what);
        check_singular(&a[..n * 5], 5, n, what);
        check_singular(&a[..n * 5], n, 5, what);
    }
}

#[test]
fn the_upper_triangle_is_not_read() {
    let found = symmetric_eigen(Isa::detect(), &[2.0, f64::NAN, 1.0, 2.0], 2).expect("values");
    let mut values = found.values;
    values.sort_by(f64::total_cmp);
    assert!((values[0] - 1.0).abs() < 1e-15 && (values[1] - 3.0).abs() < 1e-15, "{values:?}");
}

#[test]
fn what_is_not_zero_has_its_size() {
    let found = singular(Isa::detect(), &[1.0, 0.0, 0.0, 1e-200], 2, 2).expect("values");
    assert_eq!(found.values, [1.0, 1e-200]);
}
