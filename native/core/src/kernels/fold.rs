//! The operations of reductions.

use crate::dtype::Element;

pub trait Fold: 'static {
    fn identity<T: Element>() -> T;
    fn fold<T: Element>(a: T, b: T) -> T;
}

pub struct Max;
pub struct Min;
pub struct Sum;

impl Fold for Max {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::LOWEST
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.max_nan(b)
    }
}
impl Fold for Min {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::HIGHEST
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.min_nan(b)
    }
}
impl Fold for Sum {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.add(b)
    }
}
