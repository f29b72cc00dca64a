//! What the calls of kernels hold: made of src/kernels by `vitest run test/repo/made-pages -u`.
#![cfg_attr(rustfmt, rustfmt::skip)]

use serde_json::Value;

use crate::dtype::DType;
use crate::fields::{names, structs};
use crate::sizes::{aligned, min, reach, Size};
use crate::verify::At;
use crate::Result;

/// The fields of each kernel.
pub const KERNELS: &[(&str, &[&str])] = &[
    ("attention", &["dtype", "lead", "r", "n", "m", "d", "e", "scale", "causal", "query", "key", "value", "mask", "dropout", "scratch", "slots", "out", "lse"]),
    ("attentionGrad", &["dtype", "lead", "r", "n", "m", "d", "e", "scale", "causal", "query", "key", "value", "mask", "dropout", "scratch", "slots", "lse", "delta", "dy", "dq", "dk", "dv"]),
    ("axisIndex", &["axis", "out"]),
    ("collective", &["op", "axis", "reduction", "dtype", "parts", "label", "sends", "receives", "relative", "flight", "members"]),
    ("wait", &["flight"]),
    ("send", &["axis", "to", "dtype", "parts", "label"]),
    ("receive", &["axis", "from", "dtype", "parts", "label"]),
    ("loop", &["count", "reverse", "out", "test", "condition", "steps"]),
    ("branch", &["test", "steps", "otherwise"]),
    ("conv", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "weight", "bias", "relu", "out", "scratch"]),
    ("convFilter", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "dy", "out", "scratch"]),
    ("convGroups", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "weight", "bias", "relu", "out", "scratch"]),
    ("convGroupsFilter", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "dy", "out", "scratch"]),
    ("dot", &["dtype", "b", "m", "k2", "n", "x", "y", "bias", "relu", "out"]),
    ("factor", &["what", "dtype", "batch", "m", "n", "in", "out", "lower", "transpose", "unit"]),
    ("fft", &["kind", "dtype", "batch", "length", "in", "out"]),
    ("fused", &["shape", "in", "ops", "out"]),
    ("fusedRows", &["shape", "in", "ops", "out"]),
    ("fusedColumns", &["shape", "in", "ops", "out"]),
    ("gather", &["dtype", "outer", "size", "inner", "count", "in", "indices", "start", "total", "out"]),
    ("scatterAdd", &["dtype", "outer", "size", "inner", "count", "updates", "indices", "start", "total", "scratch", "out"]),
    ("scatter", &["op", "dtype", "outer", "size", "inner", "count", "in", "indices", "updates", "scratch", "out"]),
    ("dynamicSlice", &["dtype", "shape", "sizes", "in", "starts", "out"]),
    ("dynamicUpdateSlice", &["dtype", "shape", "sizes", "in", "update", "starts", "out"]),
    ("randomBits", &["key", "start", "shape", "total", "stream", "out"]),
    ("reduce", &["op", "dtype", "in", "keep", "keepStrides", "over", "overStrides", "out"]),
    ("argMax", &["dtype", "rows", "cols", "in", "out"]),
    ("softmaxCrossEntropy", &["dtype", "rows", "cols", "logits", "labels", "out"]),
    ("softmaxCrossEntropyGrad", &["dtype", "rows", "cols", "logits", "labels", "dy", "out"]),
    ("sort", &["rows", "cols", "descending", "operands"]),
    ("topK", &["dtype", "rows", "cols", "count", "in", "out"]),
    ("reduceWindow", &["op", "dtype", "n", "d", "h", "w", "c", "od", "oh", "ow", "window", "strides", "dilation", "padding", "in", "out"]),
    ("selectAndScatter", &["op", "dtype", "n", "d", "h", "w", "c", "od", "oh", "ow", "window", "strides", "dilation", "padding", "in", "source", "gate", "out"]),
    ("windowTake", &["op", "dtype", "n", "d", "h", "w", "c", "od", "oh", "ow", "window", "strides", "dilation", "padding", "in", "source", "out"]),
];

names! {
    CollectiveOp { AllReduce = "allReduce", AllGather = "allGather", ReduceScatter = "reduceScatter", AllToAll = "allToAll", Broadcast = "broadcast", Exchange = "exchange" }
    ReduceOp { Sum = "sum", Max = "max", Min = "min", And = "and", Or = "or" }
    FactorKind { Cholesky = "cholesky", TriangularSolve = "triangularSolve", Lu = "lu", Qr = "qr", Svd = "svd", Eigh = "eigh" }
    FftKind { Forward = "forward", Inverse = "inverse", FromReal = "fromReal", ToReal = "toReal" }
    ScatterOp { Sum = "sum", Prod = "prod", Max = "max", Min = "min", Replace = "replace" }
}

structs! {
    StridedJson from f {
        at: At = f.need("at")?,
        strides: Vec<isize> = f.need("strides")?,
    }
    MaskJson from f {
        at: At = f.need("at")?,
        dtype: DType = f.need("dtype")?,
        strides: Vec<isize> = f.need("strides")?,
    }
    DropoutJson from f {
        words: At = f.need("words")?,
        start: At = f.need("start")?,
        total: Vec<usize> = f.need("total")?,
        threshold: u32 = f.need("threshold")?,
        factor: f64 = f.need("factor")?,
    }
    AttentionJson from f {
        dtype: DType = f.need("dtype")?,
        lead: Vec<usize> = f.need("lead")?,
        r: usize = f.need("r")?,
        n: usize = f.need("n")?,
        m: usize = f.need("m")?,
        d: usize = f.need("d")?,
        e: usize = f.need("e")?,
        scale: f64 = f.need("scale")?,
        causal: bool = f.flag("causal")?,
        query: StridedJson = f.need("query")?,
        key: StridedJson = f.need("key")?,
        value: StridedJson = f.need("value")?,
        mask: Option<MaskJson> = f.given("mask")?,
        dropout: Option<DropoutJson> = f.given("dropout")?,
        scratch: At = f.need("scratch")?,
        slots: usize = f.need("slots")?,
    }
    AttentionForwardJson from f {
        shared: AttentionJson = AttentionJson::take(f)?,
        out: At = f.need("out")?,
        lse: At = f.need("lse")?,
    }
    AttentionGradJson from f {
        shared: AttentionJson = AttentionJson::take(f)?,
        lse: At = f.need("lse")?,
        delta: At = f.need("delta")?,
        dy: StridedJson = f.need("dy")?,
        dq: At = f.need("dq")?,
        dk: At = f.need("dk")?,
        dv: At = f.need("dv")?,
    }
    AxisIndexJson from f {
        axis: usize = f.need("axis")?,
        out: At = f.need("out")?,
    }
    PartJson from f {
        input: At = f.need("in")?,
        out: At = f.need("out")?,
        count: usize = f.need("count")?,
    }
    CollectiveJson from f {
        op: CollectiveOp = f.need("op")?,
        axis: usize = f.need("axis")?,
        reduction: Option<ReduceOp> = f.given("reduction")?,
        dtype: DType = f.need("dtype")?,
        parts: Vec<PartJson> = f.need("parts")?,
        label: Option<String> = f.given("label")?,
        sends: Option<Vec<(i64, usize)>> = f.given("sends")?,
        receives: Option<Vec<(i64, usize)>> = f.given("receives")?,
        relative: bool = f.flag("relative")?,
        flight: Option<u32> = f.given("flight")?,
        members: Option<usize> = f.given("members")?,
    }
    WaitJson from f {
        flight: u32 = f.need("flight")?,
    }
    SentJson from f {
        input: At = f.need("in")?,
        count: usize = f.need("count")?,
    }
    SendJson from f {
        axis: usize = f.need("axis")?,
        to: usize = f.need("to")?,
        dtype: DType = f.need("dtype")?,
        parts: Vec<SentJson> = f.need("parts")?,
        label: Option<String> = f.given("label")?,
    }
    ReceivedJson from f {
        out: At = f.need("out")?,
        count: usize = f.need("count")?,
    }
    ReceiveJson from f {
        axis: usize = f.need("axis")?,
        from: usize = f.need("from")?,
        dtype: DType = f.need("dtype")?,
        parts: Vec<ReceivedJson> = f.need("parts")?,
        label: Option<String> = f.given("label")?,
    }
    LoopJson from f {
        count: Option<usize> = f.given("count")?,
        reverse: bool = f.flag("reverse")?,
        out: At = f.need("out")?,
        test: Option<At> = f.given("test")?,
        condition: Option<Vec<Value>> = f.given("condition")?,
        steps: Vec<Value> = f.need("steps")?,
    }
    BranchJson from f {
        test: At = f.need("test")?,
        steps: Vec<Value> = f.need("steps")?,
        otherwise: Vec<Value> = f.need("otherwise")?,
    }
    ConvSizes from f {
        dtype: DType = f.need("dtype")?,
        n: usize = f.need("n")?,
        g: usize = f.given("g")?.unwrap_or(1),
        d: usize = f.given("d")?.unwrap_or(1),
        h: usize = f.need("h")?,
        w: usize = f.need("w")?,
        c: usize = f.need("c")?,
        kd: usize = f.given("kd")?.unwrap_or(1),
        kh: usize = f.need("kh")?,
        kw: usize = f.need("kw")?,
        o: usize = f.need("o")?,
        od: usize = f.given("od")?.unwrap_or(1),
        oh: usize = f.need("oh")?,
        ow: usize = f.need("ow")?,
        strides: [usize; 3] = f.need("strides")?,
        padding: [[i64; 2]; 3] = f.need("padding")?,
        input_dilation: [usize; 3] = f.need("inputDilation")?,
        kernel_dilation: [usize; 3] = f.need("kernelDilation")?,
        slots: usize = f.need("slots")?,
    }
    EpilogueJson from f {
        bias: Option<At> = f.given("bias")?,
        relu: bool = f.flag("relu")?,
    }
    ConvJson from f {
        sizes: ConvSizes = ConvSizes::take(f)?,
        epilogue: EpilogueJson = EpilogueJson::take(f)?,
        x: At = f.need("x")?,
        weight: StridedJson = f.need("weight")?,
        out: At = f.need("out")?,
        scratch: At = f.need("scratch")?,
    }
    ConvFilterJson from f {
        sizes: ConvSizes = ConvSizes::take(f)?,
        x: At = f.need("x")?,
        dy: At = f.need("dy")?,
        out: At = f.need("out")?,
        scratch: At = f.need("scratch")?,
    }
    DotJson from f {
        epilogue: EpilogueJson = EpilogueJson::take(f)?,
        dtype: DType = f.need("dtype")?,
        b: usize = f.need("b")?,
        m: usize = f.need("m")?,
        k2: usize = f.need("k2")?,
        n: usize = f.need("n")?,
        x: StridedJson = f.need("x")?,
        y: StridedJson = f.need("y")?,
        out: StridedJson = f.need("out")?,
    }
    FactorJson from f {
        what: FactorKind = f.need("what")?,
        dtype: DType = f.need("dtype")?,
        batch: usize = f.need("batch")?,
        m: usize = f.need("m")?,
        n: usize = f.need("n")?,
        inputs: Vec<At> = f.need("in")?,
        outputs: Vec<At> = f.need("out")?,
        lower: bool = f.flag("lower")?,
        transpose: bool = f.flag("transpose")?,
        unit: bool = f.flag("unit")?,
    }
    FftJson from f {
        kind: FftKind = f.need("kind")?,
        dtype: DType = f.need("dtype")?,
        batch: usize = f.need("batch")?,
        length: Vec<usize> = f.need("length")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
    }
    FusedIn from f {
        at: At = f.need("at")?,
        dtype: DType = f.need("dtype")?,
        strides: Vec<isize> = f.need("strides")?,
    }
    FusedOut from f {
        at: At = f.need("at")?,
        dtype: DType = f.need("dtype")?,
        strides: Vec<isize> = f.need("strides")?,
        reg: usize = f.need("reg")?,
    }
    FusedJson from f {
        shape: Vec<usize> = f.need("shape")?,
        inputs: Vec<FusedIn> = f.need("in")?,
        ops: Vec<Vec<Value>> = f.need("ops")?,
        outputs: Vec<FusedOut> = f.need("out")?,
    }
    GatherJson from f {
        dtype: DType = f.need("dtype")?,
        outer: usize = f.need("outer")?,
        size: usize = f.need("size")?,
        inner: usize = f.need("inner")?,
        count: usize = f.need("count")?,
        input: Option<At> = f.given("in")?,
        indices: At = f.need("indices")?,
        start: Option<At> = f.given("start")?,
        total: Option<usize> = f.given("total")?,
        out: At = f.need("out")?,
        updates: Option<At> = f.given("updates")?,
        scratch: Option<At> = f.given("scratch")?,
        op: Option<ScatterOp> = f.given("op")?,
    }
    SliceJson from f {
        dtype: DType = f.need("dtype")?,
        shape: Vec<usize> = f.need("shape")?,
        sizes: Vec<usize> = f.need("sizes")?,
        input: At = f.need("in")?,
        starts: Vec<At> = f.need("starts")?,
        out: At = f.need("out")?,
        update: Option<At> = f.given("update")?,
    }
    RandomBitsJson from f {
        key: At = f.need("key")?,
        start: At = f.need("start")?,
        shape: Vec<usize> = f.need("shape")?,
        total: Vec<usize> = f.need("total")?,
        stream: u32 = f.need("stream")?,
        out: At = f.need("out")?,
    }
    ReduceJson from f {
        op: ReduceOp = f.need("op")?,
        dtype: DType = f.need("dtype")?,
        input: At = f.need("in")?,
        keep: Vec<usize> = f.need("keep")?,
        keep_strides: Vec<isize> = f.need("keepStrides")?,
        over: Vec<usize> = f.need("over")?,
        over_strides: Vec<isize> = f.need("overStrides")?,
        out: At = f.need("out")?,
    }
    ArgMaxJson from f {
        dtype: DType = f.need("dtype")?,
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
    }
    CrossEntropyJson from f {
        dtype: DType = f.need("dtype")?,
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        logits: At = f.need("logits")?,
        labels: At = f.need("labels")?,
        out: At = f.need("out")?,
        dy: Option<At> = f.given("dy")?,
    }
    OperandJson from f {
        dtype: DType = f.need("dtype")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
    }
    SortJson from f {
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        descending: bool = f.flag("descending")?,
        operands: Vec<OperandJson> = f.need("operands")?,
    }
    TopKJson from f {
        dtype: DType = f.need("dtype")?,
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        count: usize = f.need("count")?,
        input: At = f.need("in")?,
        outputs: Vec<At> = f.need("out")?,
    }
    WindowJson from f {
        op: ReduceOp = f.need("op")?,
        dtype: DType = f.need("dtype")?,
        n: usize = f.need("n")?,
        d: usize = f.given("d")?.unwrap_or(1),
        h: usize = f.need("h")?,
        w: usize = f.need("w")?,
        c: usize = f.need("c")?,
        od: usize = f.given("od")?.unwrap_or(1),
        oh: usize = f.need("oh")?,
        ow: usize = f.need("ow")?,
        window: [usize; 3] = f.need("window")?,
        strides: [usize; 3] = f.need("strides")?,
        dilation: [usize; 3] = f.need("dilation")?,
        padding: [[i64; 2]; 3] = f.need("padding")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
        source: Option<At> = f.given("source")?,
        gate: bool = f.flag("gate")?,
    }
}

impl AttentionJson {
    pub fn slot(&self) -> Size {
        (Size::of(2) * Size::of(64) * Size::of(128) + Size::of(4) * Size::of(64)) * Size::of(self.dtype.size()) + Size::of(4) * Size::of(128)
    }
}

impl ConvSizes {
    pub fn weights(&self) -> Size {
        aligned(Size::of(self.g) * Size::of(self.kd) * Size::of(self.kh) * Size::of(self.kw) * Size::of(self.c) * Size::of(self.o) * Size::of(self.dtype.size()))
    }
    pub fn slot(&self) -> Size {
        aligned(min((reach(Size::of(self.od), Size::of(self.strides[0])) + reach(Size::of(self.kd), Size::of(self.kernel_dilation[0])) + Size::of(1)) * (reach(Size::of(self.oh), Size::of(self.strides[1])) + reach(Size::of(self.kh), Size::of(self.kernel_dilation[1])) + Size::of(1)) * (reach(Size::of(self.ow), Size::of(self.strides[2])) + reach(Size::of(self.kw), Size::of(self.kernel_dilation[2])) + Size::of(1)), Size::of(self.kd) * Size::of(self.kh) * Size::of(self.kw) * Size::of(self.od) * Size::of(self.oh) * Size::of(self.ow)) * Size::of(self.c) * Size::of(self.dtype.size()))
    }
    pub fn chunks(&self) -> Size {
        min(Size::of(self.n), Size::of(8))
    }
}

/// What calls of each kernel read and write.
#[allow(non_snake_case, unused_variables)]
pub mod operands {
    use super::*;
    use crate::sizes::{half, init, tail};
    use crate::verify::Role::{Read, Replaced, Scratch, Write};
    use crate::verify::{exactly, given, Checker};

    pub fn attention(f: &AttentionForwardJson, c: &mut Checker) -> Result<()> {
        c.strided(Read, "query", f.shared.query.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.d]], &[&f.shared.query.strides])?;
        c.strided(Read, "key", f.shared.key.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.d]], &[&f.shared.key.strides])?;
        c.strided(Read, "value", f.shared.value.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.e]], &[&f.shared.value.strides])?;
        if let Some(mask) = &f.shared.mask {
            c.strided(Read, "mask", mask.at, mask.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.m]], &[&mask.strides])?;
        }
        if let Some(dropout) = &f.shared.dropout {
            c.dense(Read, "dropout.words", dropout.words, DType::U32, &[&[2]])?;
            c.dense(Read, "dropout.start", dropout.start, DType::I32, &[&[dropout.total.len()]])?;
        }
        let bytes = (Size::of(f.shared.slots) * f.shared.slot()).get("scratch")?;
        c.dense(Scratch, "scratch", f.shared.scratch, DType::U8, &[&[bytes]])?;
        c.dense(Write, "out", f.out, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.e]])?;
        c.dense(Write, "lse", f.lse, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n]])?;
        Ok(())
    }

    pub fn attentionGrad(f: &AttentionGradJson, c: &mut Checker) -> Result<()> {
        c.strided(Read, "query", f.shared.query.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.d]], &[&f.shared.query.strides])?;
        c.strided(Read, "key", f.shared.key.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.d]], &[&f.shared.key.strides])?;
        c.strided(Read, "value", f.shared.value.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.e]], &[&f.shared.value.strides])?;
        if let Some(mask) = &f.shared.mask {
            c.strided(Read, "mask", mask.at, mask.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.m]], &[&mask.strides])?;
        }
        if let Some(dropout) = &f.shared.dropout {
            c.dense(Read, "dropout.words", dropout.words, DType::U32, &[&[2]])?;
            c.dense(Read, "dropout.start", dropout.start, DType::I32, &[&[dropout.total.len()]])?;
        }
        let bytes = (Size::of(f.shared.slots) * f.shared.slot()).get("scratch")?;
        c.dense(Scratch, "scratch", f.shared.scratch, DType::U8, &[&[bytes]])?;
        c.dense(Read, "lse", f.lse, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n]])?;
        c.dense(Read, "delta", f.delta, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n]])?;
        c.strided(Read, "dy", f.dy.at, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.e]], &[&f.dy.strides])?;
        c.dense(Write, "dq", f.dq, f.shared.dtype, &[&f.shared.lead, &[f.shared.r, f.shared.n, f.shared.d]])?;
        c.dense(Write, "dk", f.dk, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.d]])?;
        c.dense(Write, "dv", f.dv, f.shared.dtype, &[&f.shared.lead, &[f.shared.m, f.shared.e]])?;
        Ok(())
    }

    pub fn axisIndex(f: &AxisIndexJson, c: &mut Checker) -> Result<()> {
        c.dense(Write, "out", f.out, DType::I32, &[])?;
        Ok(())
    }

    pub fn collective(f: &CollectiveJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.parts.iter().enumerate() {
            c.dense(if f.op == CollectiveOp::AllReduce { Replaced } else { Read }, &format!("parts[{i}].in"), one.input, f.dtype, &[&[one.count]])?;
            let received = crate::kernels::collective::received(f, one)?;
            c.dense(Write, &format!("parts[{i}].out"), one.out, f.dtype, &[&[received]])?;
        }
        c.departs = f.flight;
        Ok(())
    }

    pub fn wait(f: &WaitJson, c: &mut Checker) -> Result<()> {
        Ok(())
    }

    pub fn send(f: &SendJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.parts.iter().enumerate() {
            c.dense(Read, &format!("parts[{i}].in"), one.input, f.dtype, &[&[one.count]])?;
        }
        Ok(())
    }

    pub fn receive(f: &ReceiveJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.parts.iter().enumerate() {
            c.dense(Write, &format!("parts[{i}].out"), one.out, f.dtype, &[&[one.count]])?;
        }
        Ok(())
    }

    pub fn r#loop(f: &LoopJson, c: &mut Checker) -> Result<()> {
        c.dense(Write, "out", f.out, DType::I32, &[])?;
        if let Some(test) = f.test {
            c.dense(Read, "test", test, DType::Bool, &[])?;
        }
        Ok(())
    }

    pub fn branch(f: &BranchJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "test", f.test, DType::Bool, &[])?;
        Ok(())
    }

    pub fn conv(f: &ConvJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "x", f.x, f.sizes.dtype, &[&[f.sizes.n, f.sizes.d, f.sizes.h, f.sizes.w, f.sizes.g, f.sizes.c]])?;
        c.strided(Read, "weight", f.weight.at, f.sizes.dtype, &[&[f.sizes.g, f.sizes.kd, f.sizes.kh, f.sizes.kw, f.sizes.c, f.sizes.o]], &[&f.weight.strides])?;
        if let Some(bias) = f.epilogue.bias {
            c.dense(Read, "bias", bias, f.sizes.dtype, &[&[f.sizes.g, f.sizes.o]])?;
        }
        c.dense(Write, "out", f.out, f.sizes.dtype, &[&[f.sizes.n, f.sizes.od, f.sizes.oh, f.sizes.ow, f.sizes.g, f.sizes.o]])?;
        let bytes = (f.sizes.weights() + Size::of(f.sizes.slots) * f.sizes.slot()).get("scratch")?;
        c.dense(Scratch, "scratch", f.scratch, DType::U8, &[&[bytes]])?;
        Ok(())
    }

    pub fn convFilter(f: &ConvFilterJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "x", f.x, f.sizes.dtype, &[&[f.sizes.n, f.sizes.d, f.sizes.h, f.sizes.w, f.sizes.g, f.sizes.c]])?;
        c.dense(Read, "dy", f.dy, f.sizes.dtype, &[&[f.sizes.n, f.sizes.od, f.sizes.oh, f.sizes.ow, f.sizes.g, f.sizes.o]])?;
        c.dense(Write, "out", f.out, f.sizes.dtype, &[&[f.sizes.g, f.sizes.kd, f.sizes.kh, f.sizes.kw, f.sizes.c, f.sizes.o]])?;
        let bytes = (f.sizes.chunks() * f.sizes.weights() + Size::of(f.sizes.slots) * f.sizes.slot()).get("scratch")?;
        c.dense(Scratch, "scratch", f.scratch, DType::U8, &[&[bytes]])?;
        Ok(())
    }

    pub fn convGroups(f: &ConvJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "x", f.x, f.sizes.dtype, &[&[f.sizes.n, f.sizes.d, f.sizes.h, f.sizes.w, f.sizes.c, f.sizes.g]])?;
        c.strided(Read, "weight", f.weight.at, f.sizes.dtype, &[&[f.sizes.kd, f.sizes.kh, f.sizes.kw, f.sizes.c, f.sizes.o, f.sizes.g]], &[&f.weight.strides])?;
        if let Some(bias) = f.epilogue.bias {
            c.dense(Read, "bias", bias, f.sizes.dtype, &[&[f.sizes.o, f.sizes.g]])?;
        }
        c.dense(Write, "out", f.out, f.sizes.dtype, &[&[f.sizes.n, f.sizes.od, f.sizes.oh, f.sizes.ow, f.sizes.o, f.sizes.g]])?;
        let bytes = Size::of(0).get("scratch")?;
        c.dense(Scratch, "scratch", f.scratch, DType::U8, &[&[bytes]])?;
        Ok(())
    }

    pub fn convGroupsFilter(f: &ConvFilterJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "x", f.x, f.sizes.dtype, &[&[f.sizes.n, f.sizes.d, f.sizes.h, f.sizes.w, f.sizes.c, f.sizes.g]])?;
        c.dense(Read, "dy", f.dy, f.sizes.dtype, &[&[f.sizes.n, f.sizes.od, f.sizes.oh, f.sizes.ow, f.sizes.o, f.sizes.g]])?;
        c.dense(Write, "out", f.out, f.sizes.dtype, &[&[f.sizes.kd, f.sizes.kh, f.sizes.kw, f.sizes.c, f.sizes.o, f.sizes.g]])?;
        let bytes = (f.sizes.chunks() * f.sizes.weights()).get("scratch")?;
        c.dense(Scratch, "scratch", f.scratch, DType::U8, &[&[bytes]])?;
        Ok(())
    }

    pub fn dot(f: &DotJson, c: &mut Checker) -> Result<()> {
        c.strided(Read, "x", f.x.at, f.dtype, &[&[f.b, f.m, f.k2]], &[&f.x.strides])?;
        c.strided(Read, "y", f.y.at, f.dtype, &[&[f.b, f.k2, f.n]], &[&f.y.strides])?;
        if let Some(bias) = f.epilogue.bias {
            c.dense(Read, "bias", bias, f.dtype, &[&[f.n]])?;
        }
        c.strided(Write, "out", f.out.at, f.dtype, &[&[f.b, f.m, f.n]], &[&f.out.strides])?;
        Ok(())
    }

    pub fn factor(f: &FactorJson, c: &mut Checker) -> Result<()> {
        match f.what {
            FactorKind::Cholesky => {
                let [at0] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
            }
            FactorKind::TriangularSolve => {
                let [at0, at1] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
                c.dense(Read, "in[1]", at1, f.dtype, &[&[f.batch, f.m, f.n]])?;
            }
            FactorKind::Lu => {
                let [at0] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
            }
            FactorKind::Qr => {
                let [at0] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.n]])?;
            }
            FactorKind::Svd => {
                let [at0] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.n]])?;
            }
            FactorKind::Eigh => {
                let [at0] = exactly("in", &f.inputs)?;
                c.dense(Read, "in[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
            }
        }
        match f.what {
            FactorKind::Cholesky => {
                let [at0] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
            }
            FactorKind::TriangularSolve => {
                let [at0] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m, f.n]])?;
            }
            FactorKind::Lu => {
                let [at0, at1, at2] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m, f.m]])?;
                c.dense(Write, "out[1]", at1, DType::I32, &[&[f.batch, f.m]])?;
                c.dense(Write, "out[2]", at2, f.dtype, &[&[f.batch]])?;
            }
            FactorKind::Qr => {
                let [at0, at1, at2] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m, f.m.min(f.n)]])?;
                c.dense(Write, "out[1]", at1, f.dtype, &[&[f.batch, f.m.min(f.n), f.n]])?;
                c.dense(Write, "out[2]", at2, f.dtype, &[&[f.batch]])?;
            }
            FactorKind::Svd => {
                let [at0, at1, at2] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m, f.m.min(f.n)]])?;
                c.dense(Write, "out[1]", at1, f.dtype, &[&[f.batch, f.m.min(f.n)]])?;
                c.dense(Write, "out[2]", at2, f.dtype, &[&[f.batch, f.m.min(f.n), f.n]])?;
            }
            FactorKind::Eigh => {
                let [at0, at1] = exactly("out", &f.outputs)?;
                c.dense(Write, "out[0]", at0, f.dtype, &[&[f.batch, f.m]])?;
                c.dense(Write, "out[1]", at1, f.dtype, &[&[f.batch, f.m, f.m]])?;
            }
        }
        Ok(())
    }

    pub fn fft(f: &FftJson, c: &mut Checker) -> Result<()> {
        match f.kind {
            FftKind::Forward => {
                c.dense(Read, "in", f.input, f.dtype, &[&[f.batch], &f.length, &[2]])?;
            }
            FftKind::Inverse => {
                c.dense(Read, "in", f.input, f.dtype, &[&[f.batch], &f.length, &[2]])?;
            }
            FftKind::FromReal => {
                c.dense(Read, "in", f.input, f.dtype, &[&[f.batch], &f.length])?;
            }
            FftKind::ToReal => {
                c.dense(Read, "in", f.input, f.dtype, &[&[f.batch], &half(&f.length), &[2]])?;
            }
        }
        match f.kind {
            FftKind::Forward => {
                c.dense(Write, "out", f.out, f.dtype, &[&[f.batch], &f.length, &[2]])?;
            }
            FftKind::Inverse => {
                c.dense(Write, "out", f.out, f.dtype, &[&[f.batch], &f.length, &[2]])?;
            }
            FftKind::FromReal => {
                c.dense(Write, "out", f.out, f.dtype, &[&[f.batch], &half(&f.length), &[2]])?;
            }
            FftKind::ToReal => {
                c.dense(Write, "out", f.out, f.dtype, &[&[f.batch], &f.length])?;
            }
        }
        Ok(())
    }

    pub fn fused(f: &FusedJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.inputs.iter().enumerate() {
            c.strided(Replaced, &format!("in[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
        }
        for (i, one) in f.outputs.iter().enumerate() {
            c.strided(Write, &format!("out[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
        }
        Ok(())
    }

    pub fn fusedRows(f: &FusedJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.inputs.iter().enumerate() {
            c.strided(Replaced, &format!("in[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
        }
        for (i, one) in f.outputs.iter().enumerate() {
            if one.strides.len() < f.shape.len() {
                c.strided(Write, &format!("out[{i}]"), one.at, one.dtype, &[init(&f.shape)], &[&one.strides])?;
            } else {
                c.strided(Write, &format!("out[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
            }
        }
        Ok(())
    }

    pub fn fusedColumns(f: &FusedJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.inputs.iter().enumerate() {
            c.strided(Replaced, &format!("in[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
        }
        for (i, one) in f.outputs.iter().enumerate() {
            if one.strides.len() < f.shape.len() {
                c.strided(Write, &format!("out[{i}]"), one.at, one.dtype, &[tail(&f.shape)], &[&one.strides])?;
            } else {
                c.strided(Write, &format!("out[{i}]"), one.at, one.dtype, &[&f.shape], &[&one.strides])?;
            }
        }
        Ok(())
    }

    pub fn gather(f: &GatherJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", given("in", f.input)?, f.dtype, &[&[f.outer, f.size, f.inner]])?;
        c.dense(Read, "indices", f.indices, DType::I32, &[&[f.outer, f.count]])?;
        if let Some(start) = f.start {
            c.dense(Read, "start", start, DType::I32, &[])?;
        }
        c.dense(Write, "out", f.out, f.dtype, &[&[f.outer, f.count, f.inner]])?;
        Ok(())
    }

    pub fn scatterAdd(f: &GatherJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "updates", given("updates", f.updates)?, f.dtype, &[&[f.outer, f.count, f.inner]])?;
        c.dense(Read, "indices", f.indices, DType::I32, &[&[f.outer, f.count]])?;
        if let Some(start) = f.start {
            c.dense(Read, "start", start, DType::I32, &[])?;
        }
        if let Some(scratch) = f.scratch {
            let bytes = (Size::of(f.outer) * Size::of(f.size) * Size::of(f.inner) * Size::of(f.dtype.size())).get("scratch")?;
            c.dense(Scratch, "scratch", scratch, DType::U8, &[&[bytes]])?;
        }
        c.dense(Write, "out", f.out, f.dtype, &[&[f.outer, f.size, f.inner]])?;
        Ok(())
    }

    pub fn scatter(f: &GatherJson, c: &mut Checker) -> Result<()> {
        c.dense(Replaced, "in", given("in", f.input)?, f.dtype, &[&[f.outer, f.size, f.inner]])?;
        c.dense(Read, "indices", f.indices, DType::I32, &[&[f.outer, f.count]])?;
        c.dense(Read, "updates", given("updates", f.updates)?, f.dtype, &[&[f.outer, f.count, f.inner]])?;
        if let Some(scratch) = f.scratch {
            let bytes = (Size::of(f.outer) * Size::of(f.size) * Size::of(f.inner) * Size::of(f.dtype.size())).get("scratch")?;
            c.dense(Scratch, "scratch", scratch, DType::U8, &[&[bytes]])?;
        }
        c.dense(Write, "out", f.out, f.dtype, &[&[f.outer, f.size, f.inner]])?;
        Ok(())
    }

    pub fn dynamicSlice(f: &SliceJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", f.input, f.dtype, &[&f.shape])?;
        for (i, one) in f.starts.iter().enumerate() {
            c.dense(Read, &format!("starts[{i}]"), *one, DType::I32, &[])?;
        }
        c.dense(Write, "out", f.out, f.dtype, &[&f.sizes])?;
        Ok(())
    }

    pub fn dynamicUpdateSlice(f: &SliceJson, c: &mut Checker) -> Result<()> {
        c.dense(Replaced, "in", f.input, f.dtype, &[&f.shape])?;
        c.dense(Read, "update", given("update", f.update)?, f.dtype, &[&f.sizes])?;
        for (i, one) in f.starts.iter().enumerate() {
            c.dense(Read, &format!("starts[{i}]"), *one, DType::I32, &[])?;
        }
        c.dense(Write, "out", f.out, f.dtype, &[&f.shape])?;
        Ok(())
    }

    pub fn randomBits(f: &RandomBitsJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "key", f.key, DType::U32, &[&[2]])?;
        c.dense(Read, "start", f.start, DType::I32, &[&[f.shape.len()]])?;
        c.dense(Write, "out", f.out, DType::U32, &[&f.shape])?;
        Ok(())
    }

    pub fn reduce(f: &ReduceJson, c: &mut Checker) -> Result<()> {
        c.strided(Read, "in", f.input, f.dtype, &[&f.keep, &f.over], &[&f.keep_strides, &f.over_strides])?;
        c.dense(Write, "out", f.out, f.dtype, &[&f.keep])?;
        Ok(())
    }

    pub fn argMax(f: &ArgMaxJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", f.input, f.dtype, &[&[f.rows, f.cols]])?;
        c.dense(Write, "out", f.out, DType::I32, &[&[f.rows]])?;
        Ok(())
    }

    pub fn softmaxCrossEntropy(f: &CrossEntropyJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "logits", f.logits, f.dtype, &[&[f.rows, f.cols]])?;
        c.dense(Read, "labels", f.labels, DType::I32, &[&[f.rows]])?;
        c.dense(Write, "out", f.out, f.dtype, &[&[f.rows]])?;
        Ok(())
    }

    pub fn softmaxCrossEntropyGrad(f: &CrossEntropyJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "logits", f.logits, f.dtype, &[&[f.rows, f.cols]])?;
        c.dense(Read, "labels", f.labels, DType::I32, &[&[f.rows]])?;
        c.dense(Read, "dy", given("dy", f.dy)?, f.dtype, &[&[f.rows]])?;
        c.dense(Write, "out", f.out, f.dtype, &[&[f.rows, f.cols]])?;
        Ok(())
    }

    pub fn sort(f: &SortJson, c: &mut Checker) -> Result<()> {
        for (i, one) in f.operands.iter().enumerate() {
            c.dense(Read, &format!("operands[{i}].in"), one.input, one.dtype, &[&[f.rows, f.cols]])?;
            c.dense(Write, &format!("operands[{i}].out"), one.out, one.dtype, &[&[f.rows, f.cols]])?;
        }
        Ok(())
    }

    pub fn topK(f: &TopKJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", f.input, f.dtype, &[&[f.rows, f.cols]])?;
        let [at0, at1] = exactly("out", &f.outputs)?;
        c.dense(Write, "out[0]", at0, f.dtype, &[&[f.rows, f.count]])?;
        c.dense(Write, "out[1]", at1, DType::I32, &[&[f.rows, f.count]])?;
        Ok(())
    }

    pub fn reduceWindow(f: &WindowJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
        c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
        Ok(())
    }

    pub fn selectAndScatter(f: &WindowJson, c: &mut Checker) -> Result<()> {
        c.dense(if f.gate { Replaced } else { Read }, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
        c.dense(Read, "source", given("source", f.source)?, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
        c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
        Ok(())
    }

    pub fn windowTake(f: &WindowJson, c: &mut Checker) -> Result<()> {
        c.dense(Read, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
        c.dense(Read, "source", given("source", f.source)?, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
        c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
        Ok(())
    }
}
