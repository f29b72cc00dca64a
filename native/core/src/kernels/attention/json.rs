//! What a program says of an attention and of its gradient.

use serde::Deserialize;

use crate::dtype::DType;
use crate::program::StridedJson;
use crate::verify::At;

#[derive(Deserialize)]
pub struct AttentionJson {
    pub dtype: DType,
    /// Dims of groups of heads; `r` heads share the keys and values of a group.
    pub lead: Vec<usize>,
    pub r: usize,
    pub n: usize,
    pub m: usize,
    pub d: usize,
    pub e: usize,
    pub scale: f64,
    pub causal: bool,
    pub query: StridedJson,
    pub key: StridedJson,
    pub value: StridedJson,
    pub mask: Option<MaskJson>,
    pub dropout: Option<DropoutJson>,
    pub scratch: At,
    pub slots: usize,
    pub out: Option<At>,
    pub lse: Option<At>,
}

#[derive(Deserialize)]
pub struct AttentionGradJson {
    #[serde(flatten)]
    pub shared: AttentionJson,
    pub delta: At,
    pub dy: StridedJson,
    pub dq: At,
    pub dk: At,
    pub dv: At,
}

#[derive(Deserialize)]
pub struct MaskJson {
    pub at: At,
    pub dtype: DType,
    pub strides: Vec<isize>,
}

/// Which weights of an attention are dropped: those whose word is not below the threshold.
#[derive(Deserialize)]
pub struct DropoutJson {
    pub words: At,
    pub start: At,
    pub total: Vec<usize>,
    pub threshold: u32,
    pub factor: f64,
}
