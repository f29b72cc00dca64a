//! The JSON form of a lowered program, as a closed set of steps.

use serde::de::{Deserializer, Error as _};
use serde::Deserialize;
use serde_json::Value;

use crate::control::{Block, Reader};
use crate::dtype::DType;
use crate::exec::Step;
use crate::flights::Flights;
use crate::generate::Generate;
use crate::kernels::attention::json::{AttentionGradJson, AttentionJson};
use crate::kernels::factor::FactorJson;
use crate::kernels::fft::FftJson;
use crate::kernels::sort::{SortJson, TopKJson};
use crate::verify::{At, Region};
use crate::{bail, Error, Fault, Result};

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<At, D::Error> {
        let (space, offset) = <(u32, u64)>::deserialize(deserializer)?;
        let offset = usize::try_from(offset).map_err(|_| D::Error::custom("offset out of range"))?;
        Ok(At { space, offset })
    }
}

#[derive(Deserialize)]
pub struct ProgramJson {
    pub version: u32,
    #[serde(default)]
    pub name: String,
    pub arena: u64,
    pub buffers: Vec<BufferJson>,
    pub steps: Vec<Value>,
}

#[derive(Deserialize)]
pub struct BufferJson {
    pub bytes: u64,
}

#[derive(Deserialize)]
pub struct StridedJson {
    pub at: At,
    pub strides: Vec<isize>,
}

#[derive(Deserialize)]
#[serde(tag = "k", rename_all = "camelCase")]
pub enum StepJson {
    Fused(FusedJson),
    FusedRows(FusedJson),
    FusedColumns(FusedJson),
    Reduce(ReduceJson),
    ArgMax(ArgMaxJson),
    Dot(DotJson),
    Conv(ConvJson),
    ConvFilter(ConvFilterJson),
    ConvGroups(ConvJson),
    ConvGroupsFilter(ConvFilterJson),
    ReduceWindow(WindowJson),
    SelectAndScatter(WindowJson),
    WindowTake(WindowJson),
    Gather(GatherJson),
    ScatterAdd(GatherJson),
    Scatter(crate::kernels::scatter::ScatterJson),
    DynamicSlice(SliceJson),
    DynamicUpdateSlice(SliceJson),
    RandomBits(RandomBitsJson),
    Sort(SortJson),
    TopK(TopKJson),
    Fft(FftJson),
    Factor(FactorJson),
    SoftmaxCrossEntropy(CrossEntropyJson),
    SoftmaxCrossEntropyGrad(CrossEntropyJson),
    Attention(AttentionJson),
    AttentionGrad(AttentionGradJson),
    AxisIndex(AxisIndexJson),
    Collective(CollectiveJson),
    Send(SendJson),
    Receive(ReceiveJson),
    Wait(WaitJson),
    Loop(LoopJson),
    Branch(BranchJson),
}

#[derive(Deserialize)]
pub struct LoopJson {
    pub count: Option<u64>,
    #[serde(default)]
    pub reverse: bool,
    pub out: At,
    pub test: Option<At>,
    #[serde(default)]
    pub condition: Vec<Value>,
    pub steps: Vec<Value>,
}

#[derive(Deserialize)]
pub struct BranchJson {
    pub test: At,
    pub steps: Vec<Value>,
    pub otherwise: Vec<Value>,
}

#[derive(Deserialize)]
pub struct FusedJson {
    pub shape: Vec<usize>,
    #[serde(rename = "in")]
    pub inputs: Vec<FusedIn>,
    pub ops: Vec<Vec<Value>>,
    #[serde(rename = "out")]
    pub outputs: Vec<FusedOut>,
}

#[derive(Deserialize)]
pub struct FusedIn {
    pub at: At,
    pub dtype: DType,
    pub strides: Vec<isize>,
}

#[derive(Deserialize)]
pub struct FusedOut {
    pub at: At,
    pub dtype: DType,
    pub strides: Vec<isize>,
    pub reg: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReduceOp {
    Sum,
    Max,
    Min,
    And,
    Or,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReduceJson {
    pub op: ReduceOp,
    pub dtype: DType,
    #[serde(rename = "in")]
    pub input: At,
    pub keep: Vec<usize>,
    pub keep_strides: Vec<isize>,
    pub over: Vec<usize>,
    pub over_strides: Vec<isize>,
    pub out: At,
}

#[derive(Deserialize)]
pub struct ArgMaxJson {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    #[serde(rename = "in")]
    pub input: At,
    pub out: At,
}

#[derive(Deserialize)]
pub struct DotJson {
    pub dtype: DType,
    pub b: usize,
    pub m: usize,
    pub k2: usize,
    pub n: usize,
    pub x: StridedJson,
    pub y: StridedJson,
    pub out: StridedJson,
    #[serde(flatten)]
    pub epilogue: EpilogueJson,
}

/// What is done to the results of a product or convolution, in this order.
#[derive(Deserialize)]
pub struct EpilogueJson {
    pub bias: Option<At>,
    #[serde(default)]
    pub relu: bool,
}

fn one() -> usize {
    1
}

/// Fields that convolutions and their filter gradients share.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConvSizes {
    pub dtype: DType,
    pub n: usize,
    /// Groups: channels and results of each are `c` and `o`.
    #[serde(default = "one")]
    pub g: usize,
    #[serde(default = "one")]
    pub d: usize,
    pub h: usize,
    pub w: usize,
    pub c: usize,
    #[serde(default = "one")]
    pub kd: usize,
    pub kh: usize,
    pub kw: usize,
    pub o: usize,
    #[serde(default = "one")]
    pub od: usize,
    pub oh: usize,
    pub ow: usize,
    pub strides: [usize; 3],
    pub padding: [[i64; 2]; 3],
    pub input_dilation: [usize; 3],
    pub kernel_dilation: [usize; 3],
    pub slots: usize,
}

#[derive(Deserialize)]
pub struct ConvJson {
    #[serde(flatten)]
    pub sizes: ConvSizes,
    pub x: At,
    pub weight: StridedJson,
    pub out: At,
    pub scratch: At,
    #[serde(flatten)]
    pub epilogue: EpilogueJson,
}

#[derive(Deserialize)]
pub struct ConvFilterJson {
    #[serde(flatten)]
    pub sizes: ConvSizes,
    pub x: At,
    pub dy: At,
    pub out: At,
    pub scratch: At,
}

#[derive(Deserialize)]
pub struct WindowJson {
    pub op: ReduceOp,
    pub dtype: DType,
    pub n: usize,
    #[serde(default = "one")]
    pub d: usize,
    pub h: usize,
    pub w: usize,
    pub c: usize,
    #[serde(default = "one")]
    pub od: usize,
    pub oh: usize,
    pub ow: usize,
    pub window: [usize; 3],
    pub strides: [usize; 3],
    /// Distances of the taps.
    pub dilation: [usize; 3],
    pub padding: [[i64; 2]; 3],
    #[serde(rename = "in")]
    pub input: At,
    pub source: Option<At>,
    pub out: At,
    /// Of `selectAndScatter`: 0 where `in` is at most 0.
    #[serde(default)]
    pub gate: bool,
}

#[derive(Deserialize)]
pub struct GatherJson {
    pub dtype: DType,
    pub outer: usize,
    pub size: usize,
    pub inner: usize,
    pub count: usize,
    #[serde(rename = "in")]
    pub input: Option<At>,
    pub updates: Option<At>,
    pub indices: At,
    pub out: At,
    /// Where the table is a block of a larger one: the index (i32) of its first row, and the rows of the larger one.
    pub start: Option<At>,
    pub total: Option<usize>,
    /// Room for what the roundings of long sums lose.
    pub scratch: Option<At>,
}

#[derive(Deserialize)]
pub struct SliceJson {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub sizes: Vec<usize>,
    #[serde(rename = "in")]
    pub input: At,
    pub update: Option<At>,
    pub starts: Vec<At>,
    pub out: At,
}

#[derive(Deserialize)]
pub struct RandomBitsJson {
    pub key: At,
    pub start: At,
    pub shape: Vec<usize>,
    pub total: Vec<usize>,
    pub stream: u32,
    pub out: At,
}

#[derive(Deserialize)]
pub struct CrossEntropyJson {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub logits: At,
    pub labels: At,
    pub dy: Option<At>,
    pub out: At,
}

#[derive(Deserialize)]
pub struct AxisIndexJson {
    pub axis: usize,
    pub out: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CollectiveOp {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Exchange,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PartJson {
    #[serde(rename = "in")]
    pub input: At,
    pub out: At,
    pub count: usize,
}

#[derive(Deserialize)]
pub struct CollectiveJson {
    pub op: CollectiveOp,
    pub axis: usize,
    #[serde(default)]
    pub reduction: Option<ReduceOp>,
    pub dtype: DType,
    pub parts: Vec<PartJson>,
    #[serde(default)]
    pub label: String,
    /// Of an exchange: members and counts of elements, packed in this order.
    #[serde(default)]
    pub sends: Vec<(i64, usize)>,
    #[serde(default)]
    pub receives: Vec<(i64, usize)>,
    /// Members are counted from this device.
    #[serde(default)]
    pub relative: bool,
    /// It is under way until a step waits for this number; in its place if not given.
    pub flight: Option<u32>,
    /// Devices of the axis, which a flight must know.
    pub members: Option<usize>,
}

#[derive(Deserialize)]
pub struct WaitJson {
    pub flight: u32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SentJson {
    #[serde(rename = "in")]
    pub input: At,
    pub count: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ReceivedJson {
    pub out: At,
    pub count: usize,
}

#[derive(Deserialize)]
pub struct SendJson {
    pub axis: usize,
    pub to: usize,
    pub dtype: DType,
    pub parts: Vec<SentJson>,
    #[serde(default)]
    pub label: String,
}

#[derive(Deserialize)]
pub struct ReceiveJson {
    pub axis: usize,
    pub from: usize,
    pub dtype: DType,
    pub parts: Vec<ReceivedJson>,
    #[serde(default)]
    pub label: String,
}

/// A verified program: only this can be run.
pub struct Program {
    pub name: String,
    /// Bytes that lowering laid out.
    pub arena: usize,
    /// Bytes behind the arena for partial results of kernels.
    pub extra: usize,
    pub buffers: Vec<usize>,
    /// Which buffers some step writes.
    pub written: Vec<bool>,
    pub(crate) block: Block,
    /// Number of steps at any depth.
    pub steps: usize,
    /// Whether other devices take part.
    pub(crate) collective: bool,
    /// Whether collectives are under way beside other steps.
    pub(crate) flies: bool,
}

/// No program may ask for more.
const MAX_BYTES: u64 = 1 << 46;

impl Program {
    /// Verifies a program; its kernels are generated unless `HEDDLE_JIT=off`.
    pub fn parse(text: &str) -> Result<Program> {
        Program::parse_with(text, Generate::choose()?)
    }

    pub fn parse_with(text: &str, generate: Generate) -> Result<Program> {
        Program::read(text, generate, &mut None)
    }

    /// What the steps of a program access, in the order in which they are numbered: a line each, as [`Region::line`] has it.
    pub fn accesses(text: &str) -> Result<Vec<String>> {
        let mut log = Some(Vec::new());
        Program::read(text, Generate::choose()?, &mut log)?;
        Ok(log.iter().flatten().map(Region::line).collect())
    }

    fn read(text: &str, generate: Generate, log: &mut Option<Vec<Region>>) -> Result<Program> {
        let json: ProgramJson = serde_json::from_str(text).map_err(|e| Error::new(format!("program: {e}")))?;
        if json.version != 1 {
            bail!("program: version {} is not understood, this executor knows version 1", json.version);
        }
        let mut spaces = Vec::with_capacity(json.buffers.len() + 1);
        for bytes in std::iter::once(json.arena).chain(json.buffers.iter().map(|b| b.bytes)) {
            if bytes > MAX_BYTES {
                return Err(Fault::Memory { bytes: bytes as usize }.into());
            }
            spaces.push(bytes as usize);
        }
        let mut written = vec![false; json.buffers.len()];
        let mut reader = Reader {
            spaces: &spaces,
            written: &mut written,
            next: 0,
            depth: 0,
            generate,
            flights: Flights::default(),
            log: log.take(),
        };
        let block = reader.block(json.steps)?;
        let steps = reader.next;
        *log = reader.log;
        let extra = block.extra();
        if extra as u64 > MAX_BYTES {
            bail!("program: {extra} bytes of partial results are too many");
        }
        let collective = block.any(&|step| matches!(step, Step::Collective(_) | Step::Transfer(_)));
        let flies = block.any(&|step| matches!(step, Step::Wait(_)));
        Ok(Program {
            name: json.name,
            arena: spaces[0],
            extra,
            buffers: spaces[1..].to_vec(),
            written,
            block,
            steps,
            collective,
            flies,
        })
    }

    /// Bytes of arena that a run needs.
    pub fn total_bytes(&self) -> usize {
        self.arena.next_multiple_of(64) + self.extra
    }
}
