//! Attention and its gradient.

mod forward;
mod gradient;

use crate::reader::kernels;

kernels! {
    attention = forward::Attention::new;
    attentionGrad = gradient::AttentionGrad::new;
}
