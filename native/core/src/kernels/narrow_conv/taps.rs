//! The weights in the order of taps.

use crate::calls::ConvSizes;

/// Calls `f` with the first element of each tap's weights for each channel, in order.
pub unsafe fn each_tap(
    s: &ConvSizes,
    weight: *const u16,
    strides: &[isize; 6],
    group: usize,
    mut f: impl FnMut(*const u16),
) {
    let [by_group, by_z, by_y, by_x, by_c, _] = *strides;
    let at = |from: *const u16, i: usize, by: isize| from.wrapping_offset(i as isize * by);
    for tap in 0..s.kd * s.kh * s.kw {
        let from = at(at(weight, group, by_group), tap / (s.kh * s.kw), by_z);
        let from = at(at(from, tap / s.kw % s.kh, by_y), tap % s.kw, by_x);
        (0..s.c).for_each(|c| f(at(from, c, by_c)));
    }
}
