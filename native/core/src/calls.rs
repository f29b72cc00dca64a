//! What the calls of kernels hold: made of src/kernels by `vitest run test/repo/made-pages -u`.
#![cfg_attr(rustfmt, rustfmt::skip)]

use serde_json::Value;

use crate::dtype::DType;
use crate::fields::{names, structs};
use crate::verify::At;

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
