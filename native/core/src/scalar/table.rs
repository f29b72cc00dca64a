//! The table of float functions: one row each. Meaning and gradient are in the rows of `src/ops/scalar.ts`.
//!
//! A list calls a given macro with its rows, so the interpreter and the generator read the same rows. Functions in `steps`
//! and `periodic` are written in operations; periodic functions take fewer operations for numbers that are not huge
//! (`trigonometric::near`). Functions in `library` are calls, which only the interpreter can make: the steps of `rem` are as many as
//! the digits of its quotient, those of `polygamma` grow with the order.

macro_rules! unary_functions {
    ($visit:ident $($with:tt)*) => {
        $visit! { [$($with)*]
            steps {
                "neg" neg
                "abs" abs
                "sign" sign
                "exp" exp
                "expm1" expm1
                "log" log
                "sqrt" sqrt
                "rsqrt" rsqrt
                "tanh" tanh
                "logistic" logistic
                "floor" floor
                "ceil" ceil
                "round" round
                "trunc" trunc
                "log1p" log1p
                "erf" erf
                "softplus" softplus
                "atan" atan
                "asin" asin
                "acos" acos
                "sinh" sinh
                "cosh" cosh
                "asinh" asinh
                "acosh" acosh
                "atanh" atanh
                "exp2" exp2
                "log2" log2
                "cbrt" cbrt
                "erfc" erfc
                "erfInv" erf_inv
                "lgamma" lgamma
                "digamma" digamma
            }
            periodic {
                "sin" sin
                "cos" cos
                "tan" tan
            }
            conditions {
                "isFinite" is_finite
            }
        }
    };
}

macro_rules! binary_functions {
    ($visit:ident $($with:tt)*) => {
        $visit! { [$($with)*]
            steps {
                "add" add
                "sub" sub
                "mul" mul
                "div" div
                "max" max
                "min" min
                "pow" pow
                "atan2" atan2
            }
            library {
                "rem"
                "polygamma"
            }
            conditions {
                "eq" eq
                "ne" ne
                "lt" lt
                "le" le
                "gt" gt
                "ge" ge
            }
        }
    };
}

pub(crate) use {binary_functions, unary_functions};
