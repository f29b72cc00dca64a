//! The table of float functions: one row each. `src/ops/scalar.ts` has the row with the meaning and the gradient.
//!
//! A list calls the macro it is given with its rows, so that the interpreter and the generator read the same ones:
//! `steps` are written in operations for f32 and f64; `single` for f32 alone, with a library function for f64; `library`
//! are calls, which only the interpreter can make.

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
            }
            single {
                "log1p" log1p libm::log1p;
                "erf" erf libm::erf;
                "softplus" softplus crate::scalar::double::library_softplus;
                "atan" atan libm::atan;
                "asin" asin libm::asin;
                "acos" acos libm::acos;
                "sinh" sinh libm::sinh;
                "cosh" cosh libm::cosh;
                "asinh" asinh libm::asinh;
                "acosh" acosh crate::scalar::special::acosh;
                "atanh" atanh libm::atanh;
                "exp2" exp2 libm::exp2;
                "log2" log2 libm::log2;
                "cbrt" cbrt libm::cbrt;
                "erfc" erfc libm::erfc;
                "erfInv" erf_inv crate::scalar::special::erf_inv;
            }
            library {
                "sin" libm::sinf, libm::sin;
                "cos" libm::cosf, libm::cos;
                "tan" libm::tanf, libm::tan;
                "lgamma" crate::scalar::special::lgamma32, libm::lgamma;
                "digamma" crate::scalar::special::digamma32, crate::scalar::special::digamma;
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
            }
            library {
                "rem"
                "pow"
                "atan2"
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
