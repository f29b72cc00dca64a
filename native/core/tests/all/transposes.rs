//! Transposing copies of small blocks, of all sizes.

use heddle_core::kernels::transpose::transpose;

#[test]
fn transposes_of_all_sizes() {
    for (rows, columns) in (0..10).flat_map(|r| (0..10).map(move |c| (r, c))) {
        let from: Vec<u32> = (0..200).collect();
        let mut to = vec![0u32; 200];
        unsafe { transpose(from.as_ptr(), 12, rows, columns, to.as_mut_ptr(), 11) };
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            assert_eq!(to[i * 11 + j], from[j * 12 + i]);
        }
    }
}
