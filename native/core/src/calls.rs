//! What the calls of kernels hold: made of src/kernels by `vitest run test/repo/made-pages -u`.
#![cfg_attr(rustfmt, rustfmt::skip)]

use serde_json::Value;

use crate::dtype::DType;
use crate::fields::{names, structs};
use crate::sizes::{aligned, min, reach, Size};
use crate::verify::At;

/// The fields of each kernel.
pub const KERNELS: &[(&str, &[&str])] = &[
    ("argMax", &["dtype", "rows", "cols", "in", "out"]),
    ("attention", &["dtype", "lead", "r", "n", "m", "d", "e", "scale", "causal", "query", "key", "value", "mask", "dropout", "scratch", "slots", "out", "lse"]),
    ("attentionGrad", &["dtype", "lead", "r", "n", "m", "d", "e", "scale", "causal", "query", "key", "value", "mask", "dropout", "scratch", "slots", "lse", "delta", "dy", "dq", "dk", "dv"]),
    ("axisIndex", &["axis", "out"]),
    ("branch", &["test", "steps", "otherwise"]),
    ("collective", &["op", "axis", "reduction", "dtype", "parts", "label", "sends", "receives", "relative", "handle", "members"]),
    ("conv", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "weight", "bias", "relu", "out", "scratch"]),
    ("convFilter", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "dy", "out", "scratch"]),
    ("convGroups", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "weight", "bias", "relu", "out", "scratch"]),
    ("convGroupsFilter", &["dtype", "n", "g", "d", "h", "w", "c", "kd", "kh", "kw", "o", "od", "oh", "ow", "strides", "padding", "inputDilation", "kernelDilation", "slots", "x", "dy", "out", "scratch"]),
    ("dot", &["dtype", "b", "m", "k2", "n", "x", "y", "bias", "relu", "out"]),
    ("dynamicSlice", &["dtype", "shape", "sizes", "in", "starts", "out"]),
    ("dynamicUpdateSlice", &["dtype", "shape", "sizes", "in", "update", "starts", "out"]),
    ("entriesDot", &["dtype", "count", "inner", "rows", "size", "values", "from", "to", "dense", "out"]),
    ("factor", &["what", "dtype", "batch", "m", "n", "in", "out", "lower", "transpose", "unit"]),
    ("fft", &["kind", "dtype", "batch", "length", "in", "out"]),
    ("fused", &["shape", "in", "ops", "out"]),
    ("fusedColumns", &["shape", "in", "ops", "out"]),
    ("fusedRows", &["shape", "in", "ops", "out"]),
    ("gather", &["dtype", "outer", "size", "inner", "count", "in", "indices", "start", "total", "out"]),
    ("loop", &["count", "reverse", "out", "test", "condition", "steps"]),
    ("narrowDot", &["dtype", "b", "m", "k2", "n", "x", "y", "bias", "relu", "out"]),
    ("randomBits", &["key", "start", "shape", "total", "stream", "out"]),
    ("receive", &["axis", "from", "dtype", "parts", "label", "handle"]),
    ("reduce", &["op", "dtype", "in", "keep", "keepStrides", "over", "overStrides", "out"]),
    ("reduceWindow", &["op", "dtype", "n", "d", "h", "w", "c", "od", "oh", "ow", "window", "strides", "dilation", "padding", "in", "out"]),
    ("sampledDot", &["dtype", "count", "inner", "m", "n", "left", "right", "rows", "columns", "out"]),
    ("scatter", &["op", "dtype", "outer", "size", "inner", "count", "in", "indices", "updates", "scratch", "out"]),
    ("scatterAdd", &["dtype", "outer", "size", "inner", "count", "updates", "indices", "start", "total", "scratch", "out"]),
    ("selectAndScatter", &["op", "dtype", "n", "d", "h", "w", "c", "od", "oh", "ow", "window", "strides", "dilation", "padding", "in", "source", "gate", "out"]),
    ("send", &["axis", "to", "dtype", "parts", "label", "handle"]),
    ("softmaxCrossEntropy", &["dtype", "rows", "cols", "logits", "labels", "out"]),
    ("softmaxCrossEntropyGrad", &["dtype", "rows", "cols", "logits", "labels", "dy", "out"]),
    ("sort", &["rows", "cols", "descending", "operands"]),
    ("topK", &["dtype", "rows", "cols", "count", "in", "out"]),
    ("wait", &["handle"]),
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
    ArgMaxJson from f {
        dtype: DType = f.need("dtype")?,
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
    }
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
        mask: Option<MaskJson> = f.optional("mask")?,
        dropout: Option<DropoutJson> = f.optional("dropout")?,
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
    BranchJson from f {
        test: At = f.need("test")?,
        steps: Vec<Value> = f.need("steps")?,
        otherwise: Vec<Value> = f.need("otherwise")?,
    }
    PartJson from f {
        input: At = f.need("in")?,
        out: At = f.need("out")?,
        count: usize = f.need("count")?,
    }
    CollectiveJson from f {
        op: CollectiveOp = f.need("op")?,
        axis: usize = f.need("axis")?,
        reduction: Option<ReduceOp> = f.optional("reduction")?,
        dtype: DType = f.need("dtype")?,
        parts: Vec<PartJson> = f.need("parts")?,
        label: Option<String> = f.optional("label")?,
        sends: Option<Vec<(i64, usize)>> = f.optional("sends")?,
        receives: Option<Vec<(i64, usize)>> = f.optional("receives")?,
        relative: bool = f.flag("relative")?,
        handle: Option<u32> = f.optional("handle")?,
        members: Option<usize> = f.optional("members")?,
    }
    ConvSizes from f {
        dtype: DType = f.need("dtype")?,
        n: usize = f.need("n")?,
        g: usize = f.optional("g")?.unwrap_or(1),
        d: usize = f.optional("d")?.unwrap_or(1),
        h: usize = f.need("h")?,
        w: usize = f.need("w")?,
        c: usize = f.need("c")?,
        kd: usize = f.optional("kd")?.unwrap_or(1),
        kh: usize = f.need("kh")?,
        kw: usize = f.need("kw")?,
        o: usize = f.need("o")?,
        od: usize = f.optional("od")?.unwrap_or(1),
        oh: usize = f.need("oh")?,
        ow: usize = f.need("ow")?,
        strides: [usize; 3] = f.need("strides")?,
        padding: [[i64; 2]; 3] = f.need("padding")?,
        input_dilation: [usize; 3] = f.need("inputDilation")?,
        kernel_dilation: [usize; 3] = f.need("kernelDilation")?,
        slots: usize = f.need("slots")?,
    }
    EpilogueJson from f {
        bias: Option<At> = f.optional("bias")?,
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
    SliceJson from f {
        dtype: DType = f.need("dtype")?,
        shape: Vec<usize> = f.need("shape")?,
        sizes: Vec<usize> = f.need("sizes")?,
        input: At = f.need("in")?,
        starts: Vec<At> = f.need("starts")?,
        out: At = f.need("out")?,
        update: Option<At> = f.optional("update")?,
    }
    EntriesDotJson from f {
        dtype: DType = f.need("dtype")?,
        count: usize = f.need("count")?,
        inner: usize = f.need("inner")?,
        rows: usize = f.need("rows")?,
        size: usize = f.need("size")?,
        values: At = f.need("values")?,
        from: At = f.need("from")?,
        to: At = f.need("to")?,
        dense: At = f.need("dense")?,
        out: At = f.need("out")?,
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
        input: Option<At> = f.optional("in")?,
        indices: At = f.need("indices")?,
        start: Option<At> = f.optional("start")?,
        total: Option<usize> = f.optional("total")?,
        out: At = f.need("out")?,
        op: Option<ScatterOp> = f.optional("op")?,
        updates: Option<At> = f.optional("updates")?,
        scratch: Option<At> = f.optional("scratch")?,
    }
    LoopJson from f {
        count: Option<usize> = f.optional("count")?,
        reverse: bool = f.flag("reverse")?,
        out: At = f.need("out")?,
        test: Option<At> = f.optional("test")?,
        condition: Option<Vec<Value>> = f.optional("condition")?,
        steps: Vec<Value> = f.need("steps")?,
    }
    NarrowJson from f {
        at: At = f.need("at")?,
        dtype: DType = f.need("dtype")?,
        strides: Vec<isize> = f.need("strides")?,
    }
    NarrowDotJson from f {
        epilogue: EpilogueJson = EpilogueJson::take(f)?,
        dtype: DType = f.need("dtype")?,
        b: usize = f.need("b")?,
        m: usize = f.need("m")?,
        k2: usize = f.need("k2")?,
        n: usize = f.need("n")?,
        x: NarrowJson = f.need("x")?,
        y: NarrowJson = f.need("y")?,
        out: StridedJson = f.need("out")?,
    }
    RandomBitsJson from f {
        key: At = f.need("key")?,
        start: At = f.need("start")?,
        shape: Vec<usize> = f.need("shape")?,
        total: Vec<usize> = f.need("total")?,
        stream: u32 = f.need("stream")?,
        out: At = f.need("out")?,
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
        label: Option<String> = f.optional("label")?,
        handle: Option<u32> = f.optional("handle")?,
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
    WindowJson from f {
        op: ReduceOp = f.need("op")?,
        dtype: DType = f.need("dtype")?,
        n: usize = f.need("n")?,
        d: usize = f.optional("d")?.unwrap_or(1),
        h: usize = f.need("h")?,
        w: usize = f.need("w")?,
        c: usize = f.need("c")?,
        od: usize = f.optional("od")?.unwrap_or(1),
        oh: usize = f.need("oh")?,
        ow: usize = f.need("ow")?,
        window: [usize; 3] = f.need("window")?,
        strides: [usize; 3] = f.need("strides")?,
        dilation: [usize; 3] = f.need("dilation")?,
        padding: [[i64; 2]; 3] = f.need("padding")?,
        input: At = f.need("in")?,
        out: At = f.need("out")?,
        source: Option<At> = f.optional("source")?,
        gate: bool = f.flag("gate")?,
    }
    SampledDotJson from f {
        dtype: DType = f.need("dtype")?,
        count: usize = f.need("count")?,
        inner: usize = f.need("inner")?,
        m: usize = f.need("m")?,
        n: usize = f.need("n")?,
        left: At = f.need("left")?,
        right: At = f.need("right")?,
        rows: At = f.need("rows")?,
        columns: At = f.need("columns")?,
        out: At = f.need("out")?,
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
        label: Option<String> = f.optional("label")?,
        handle: Option<u32> = f.optional("handle")?,
    }
    CrossEntropyJson from f {
        dtype: DType = f.need("dtype")?,
        rows: usize = f.need("rows")?,
        cols: usize = f.need("cols")?,
        logits: At = f.need("logits")?,
        labels: At = f.need("labels")?,
        out: At = f.need("out")?,
        dy: Option<At> = f.optional("dy")?,
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
    WaitJson from f {
        handle: u32 = f.need("handle")?,
    }
}

impl AttentionJson {
    pub fn slot(&self) -> Size {
        Size::of(32) * (Size::of(2) * Size::of(128) + Size::of(self.d) + Size::of(self.e)) * Size::of(self.dtype.size()) + Size::of(4) * Size::of(128)
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
