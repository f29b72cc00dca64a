//! The operations of reductions.

use crate::dtype::Element;

pub trait Fold: 'static {
    fn identity<T: Element>() -> T;
    fn fold<T: Element>(a: T, b: T) -> T;
}

pub struct And;
pub struct Or;
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
impl Fold for And {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ALL
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.bit_and(b)
    }
}
impl Fold for Or {
    #[inline(always)]
    fn identity<T: Element>() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn fold<T: Element>(a: T, b: T) -> T {
        a.bit_or(b)
    }
}
