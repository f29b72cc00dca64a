//! What calls of each kernel read and write: made of src/kernels by `vitest run test/repo/made-pages -u`.
#![cfg_attr(rustfmt, rustfmt::skip)]
#![allow(non_snake_case, unused_variables)]

use crate::calls::*;
use crate::dtype::DType;
use crate::sizes::{half, init, tail, Size};
use crate::verify::Role::{Read, Replaced, Scratch, Write};
use crate::verify::{exactly, required, Checker};
use crate::Result;

pub fn argMax(f: &ArgMaxJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "in", f.input, f.dtype, &[&[f.rows, f.cols]])?;
    c.dense(Write, "out", f.out, DType::I32, &[&[f.rows]])?;
    Ok(())
}

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

pub fn branch(f: &BranchJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "test", f.test, DType::Bool, &[])?;
    Ok(())
}

pub fn collective(f: &CollectiveJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.parts.iter().enumerate() {
        c.dense(if f.op == CollectiveOp::AllReduce { Replaced } else { Read }, &format!("parts[{i}].in"), item.input, f.dtype, &[&[item.count]])?;
        let received = crate::collectives::received(f, item)?;
        c.dense(Write, &format!("parts[{i}].out"), item.out, f.dtype, &[&[received]])?;
    }
    c.starts = f.handle;
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

pub fn dynamicSlice(f: &SliceJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "in", f.input, f.dtype, &[&f.shape])?;
    for (i, item) in f.starts.iter().enumerate() {
        c.dense(Read, &format!("starts[{i}]"), *item, DType::I32, &[])?;
    }
    c.dense(Write, "out", f.out, f.dtype, &[&f.sizes])?;
    Ok(())
}

pub fn dynamicUpdateSlice(f: &SliceJson, c: &mut Checker) -> Result<()> {
    c.dense(Replaced, "in", f.input, f.dtype, &[&f.shape])?;
    c.dense(Read, "update", required("update", f.update)?, f.dtype, &[&f.sizes])?;
    for (i, item) in f.starts.iter().enumerate() {
        c.dense(Read, &format!("starts[{i}]"), *item, DType::I32, &[])?;
    }
    c.dense(Write, "out", f.out, f.dtype, &[&f.shape])?;
    Ok(())
}

pub fn entriesDot(f: &EntriesDotJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "values", f.values, f.dtype, &[&[f.count]])?;
    c.dense(Read, "from", f.from, DType::I32, &[&[f.count]])?;
    c.dense(Read, "to", f.to, DType::I32, &[&[f.count]])?;
    c.dense(Read, "dense", f.dense, f.dtype, &[&[f.rows, f.inner]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.size, f.inner]])?;
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
    for (i, item) in f.inputs.iter().enumerate() {
        c.strided(Replaced, &format!("in[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
    }
    for (i, item) in f.outputs.iter().enumerate() {
        c.strided(Write, &format!("out[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
    }
    Ok(())
}

pub fn fusedColumns(f: &FusedJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.inputs.iter().enumerate() {
        c.strided(Replaced, &format!("in[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
    }
    for (i, item) in f.outputs.iter().enumerate() {
        if item.strides.len() < f.shape.len() {
            c.strided(Write, &format!("out[{i}]"), item.at, item.dtype, &[tail(&f.shape)], &[&item.strides])?;
        } else {
            c.strided(Write, &format!("out[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
        }
    }
    Ok(())
}

pub fn fusedRows(f: &FusedJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.inputs.iter().enumerate() {
        c.strided(Replaced, &format!("in[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
    }
    for (i, item) in f.outputs.iter().enumerate() {
        if item.strides.len() < f.shape.len() {
            c.strided(Write, &format!("out[{i}]"), item.at, item.dtype, &[init(&f.shape)], &[&item.strides])?;
        } else {
            c.strided(Write, &format!("out[{i}]"), item.at, item.dtype, &[&f.shape], &[&item.strides])?;
        }
    }
    Ok(())
}

pub fn gather(f: &GatherJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "in", required("in", f.input)?, f.dtype, &[&[f.outer, f.size, f.inner]])?;
    c.dense(Read, "indices", f.indices, DType::I32, &[&[f.outer, f.count]])?;
    if let Some(start) = f.start {
        c.dense(Read, "start", start, DType::I32, &[])?;
    }
    c.dense(Write, "out", f.out, f.dtype, &[&[f.outer, f.count, f.inner]])?;
    Ok(())
}

pub fn r#loop(f: &LoopJson, c: &mut Checker) -> Result<()> {
    c.dense(Write, "out", f.out, DType::I32, &[])?;
    if let Some(test) = f.test {
        c.dense(Read, "test", test, DType::Bool, &[])?;
    }
    Ok(())
}

pub fn narrowDot(f: &NarrowDotJson, c: &mut Checker) -> Result<()> {
    c.strided(Read, "x", f.x.at, f.x.dtype, &[&[f.b, f.m, f.k2]], &[&f.x.strides])?;
    c.strided(Read, "y", f.y.at, f.y.dtype, &[&[f.b, f.k2, f.n]], &[&f.y.strides])?;
    if let Some(bias) = f.epilogue.bias {
        c.dense(Read, "bias", bias, f.dtype, &[&[f.n]])?;
    }
    c.strided(Write, "out", f.out.at, f.dtype, &[&[f.b, f.m, f.n]], &[&f.out.strides])?;
    Ok(())
}

pub fn randomBits(f: &RandomBitsJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "key", f.key, DType::U32, &[&[2]])?;
    c.dense(Read, "start", f.start, DType::I32, &[&[f.shape.len()]])?;
    c.dense(Write, "out", f.out, DType::U32, &[&f.shape])?;
    Ok(())
}

pub fn receive(f: &ReceiveJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.parts.iter().enumerate() {
        c.dense(Write, &format!("parts[{i}].out"), item.out, f.dtype, &[&[item.count]])?;
    }
    c.starts = f.handle;
    Ok(())
}

pub fn reduce(f: &ReduceJson, c: &mut Checker) -> Result<()> {
    c.strided(Read, "in", f.input, f.dtype, &[&f.keep, &f.over], &[&f.keep_strides, &f.over_strides])?;
    c.dense(Write, "out", f.out, f.dtype, &[&f.keep])?;
    Ok(())
}

pub fn reduceWindow(f: &WindowJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
    Ok(())
}

pub fn sampledDot(f: &SampledDotJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "left", f.left, f.dtype, &[&[f.m, f.inner]])?;
    c.dense(Read, "right", f.right, f.dtype, &[&[f.n, f.inner]])?;
    c.dense(Read, "rows", f.rows, DType::I32, &[&[f.count]])?;
    c.dense(Read, "columns", f.columns, DType::I32, &[&[f.count]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.count]])?;
    Ok(())
}

pub fn scatter(f: &GatherJson, c: &mut Checker) -> Result<()> {
    c.dense(Replaced, "in", required("in", f.input)?, f.dtype, &[&[f.outer, f.size, f.inner]])?;
    c.dense(Read, "indices", f.indices, DType::I32, &[&[f.outer, f.count]])?;
    c.dense(Read, "updates", required("updates", f.updates)?, f.dtype, &[&[f.outer, f.count, f.inner]])?;
    if let Some(scratch) = f.scratch {
        let bytes = (Size::of(f.outer) * Size::of(f.size) * Size::of(f.inner) * Size::of(f.dtype.size())).get("scratch")?;
        c.dense(Scratch, "scratch", scratch, DType::U8, &[&[bytes]])?;
    }
    c.dense(Write, "out", f.out, f.dtype, &[&[f.outer, f.size, f.inner]])?;
    Ok(())
}

pub fn scatterAdd(f: &GatherJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "updates", required("updates", f.updates)?, f.dtype, &[&[f.outer, f.count, f.inner]])?;
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

pub fn selectAndScatter(f: &WindowJson, c: &mut Checker) -> Result<()> {
    c.dense(if f.gate { Replaced } else { Read }, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
    c.dense(Read, "source", required("source", f.source)?, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
    Ok(())
}

pub fn send(f: &SendJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.parts.iter().enumerate() {
        c.dense(Read, &format!("parts[{i}].in"), item.input, f.dtype, &[&[item.count]])?;
    }
    c.starts = f.handle;
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
    c.dense(Read, "dy", required("dy", f.dy)?, f.dtype, &[&[f.rows]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.rows, f.cols]])?;
    Ok(())
}

pub fn sort(f: &SortJson, c: &mut Checker) -> Result<()> {
    for (i, item) in f.operands.iter().enumerate() {
        c.dense(Read, &format!("operands[{i}].in"), item.input, item.dtype, &[&[f.rows, f.cols]])?;
        c.dense(Write, &format!("operands[{i}].out"), item.out, item.dtype, &[&[f.rows, f.cols]])?;
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

pub fn wait(f: &WaitJson, c: &mut Checker) -> Result<()> {
    Ok(())
}

pub fn windowTake(f: &WindowJson, c: &mut Checker) -> Result<()> {
    c.dense(Read, "in", f.input, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
    c.dense(Read, "source", required("source", f.source)?, f.dtype, &[&[f.n, f.d, f.h, f.w, f.c]])?;
    c.dense(Write, "out", f.out, f.dtype, &[&[f.n, f.od, f.oh, f.ow, f.c]])?;
    Ok(())
}
