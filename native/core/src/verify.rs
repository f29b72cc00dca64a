//! Checks of a program's addresses: every access is inside its buffer and aligned, and the accesses of a step overlap only
//! where that is allowed.

use crate::dtype::DType;
use crate::{bail, Result};

/// `[space, byte offset]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub space: u32,
    pub offset: usize,
}

/// The most dims of a view.
pub const MAX_RANK: usize = 16;
/// The most elements of a view; keeps all later arithmetic far from overflow.
const MAX_COUNT: u64 = 1 << 48;

/// How a step uses an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Read,
    /// The step reads the operand, and an output may be exactly the same view.
    Replaced,
    Write,
    Scratch,
}

impl Role {
    pub(crate) fn reads(self) -> bool {
        matches!(self, Role::Read | Role::Replaced)
    }
}

/// The bytes of one access of a step, and its role.
#[derive(Clone)]
pub struct Region {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) space: u32,
    pub(crate) low: usize,
    pub(crate) high: usize,
    /// What must agree for two regions to be the same view.
    pub(crate) view: (usize, DType, Vec<(usize, isize)>),
}

impl Region {
    /// Whether the two regions share bytes and at least one of them writes.
    pub(crate) fn collides(&self, other: &Region) -> bool {
        (!self.role.reads() || !other.role.reads()) && self.overlaps(other)
    }

    pub(crate) fn overlaps(&self, other: &Region) -> bool {
        self.space == other.space && self.low < other.high && other.low < self.high
    }

    /// Whether all bytes from the first to the last one are written.
    pub(crate) fn fills(&self) -> bool {
        let elements: usize = self.view.2.iter().map(|(size, _)| size).product();
        self.role == Role::Write && self.high - self.low == elements * self.view.1.size()
    }

    /// `name role space low high`; the bounds are in bytes.
    pub fn line(&self) -> String {
        let role = match self.role {
            Role::Read | Role::Replaced => "read",
            Role::Write => "write",
            Role::Scratch => "scratch",
        };
        format!("{} {role} {} {} {}", self.name, self.space, self.low, self.high)
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (bytes {}..{} of space {})", self.name, self.low, self.high, self.space)
    }
}

/// A collective that the program has started and not yet waited for.
struct Pending {
    handle: u32,
    /// The step that started the collective, for error texts.
    op: usize,
    regions: Vec<Region>,
}

/// The asynchronous collectives in flight at the step that is verified.
#[derive(Default)]
pub struct InFlight {
    pending: Vec<Pending>,
    /// Number of the step among the outermost steps; `None` inside a loop or branch.
    pub(crate) outermost: Option<usize>,
}

impl InFlight {
    /// Refuses a step that writes what a collective in flight reads or writes, or reads what such a collective writes.
    fn check(&self, regions: &[Region]) -> Result<()> {
        for Pending { op, regions: held, .. } in &self.pending {
            for held in held {
                if let Some(region) = regions.iter().find(|region| region.collides(held)) {
                    bail!("{region} overlaps {held} of op {op}, which is still in flight");
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, handle: u32, regions: Vec<Region>) -> Result<()> {
        let Some(op) = self.outermost else { bail!("a collective in a loop or branch cannot be asynchronous") };
        if let Some(pending) = self.pending.iter().find(|pending| pending.handle == handle) {
            bail!("handle {handle} of op {} is still in flight", pending.op);
        }
        self.pending.push(Pending { handle, op, regions });
        Ok(())
    }

    pub(crate) fn wait(&mut self, handle: u32) -> Result<()> {
        let index = self.pending.iter().position(|pending| pending.handle == handle && self.outermost.is_some());
        let Some(index) = index else { bail!("handle {handle} is not in flight") };
        self.pending.remove(index);
        Ok(())
    }

    /// Refuses the end of a program while collectives are in flight.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.pending.first() {
            Some(pending) => bail!("no step waits for handle {} of op {}", pending.handle, pending.op),
            None => Ok(()),
        }
    }
}

/// Collects the accesses of one step.
pub struct Checker<'a> {
    pub spaces: &'a [usize],
    pub in_flight: &'a mut InFlight,
    pub regions: Vec<Region>,
    pub written: &'a mut [bool],
    /// The handle of the asynchronous collective that the step starts.
    pub starts: Option<u32>,
    /// Collects the accesses of all steps with the steps' numbers.
    pub log: &'a mut Vec<(usize, Region)>,
    pub step: usize,
}

pub fn count(shape: &[usize]) -> Result<usize> {
    if shape.len() > MAX_RANK {
        bail!("rank {} is above {MAX_RANK}", shape.len());
    }
    let mut total: u64 = 1;
    for &size in shape {
        // A size of zero must not hide another size that is too large.
        if size as u64 > MAX_COUNT {
            bail!("size {size} is too large");
        }
        total = total.saturating_mul(size.max(1) as u64);
    }
    if total > MAX_COUNT {
        bail!("shape {shape:?} is too large");
    }
    Ok(shape.iter().product())
}

pub fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].saturating_mul(shape[i + 1].max(1) as isize);
    }
    strides
}

impl Checker<'_> {
    /// An operand without gaps; the shape comes in parts.
    pub fn dense(&mut self, role: Role, name: &str, at: At, dtype: DType, shape: &[&[usize]]) -> Result<()> {
        let shape = shape.concat();
        self.add(name, role, at, dtype, &shape, &contiguous(&shape))
    }

    pub fn strided(
        &mut self,
        role: Role,
        name: &str,
        at: At,
        dtype: DType,
        shape: &[&[usize]],
        strides: &[&[isize]],
    ) -> Result<()> {
        let (shape, strides) = (shape.concat(), strides.concat());
        self.add(name, role, at, dtype, &shape, &strides)?;
        if role == Role::Write && shape.iter().all(|s| *s > 0) {
            apart(&shape, &strides).map_err(|e| e.at(name))?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, role: Role, at: At, dtype: DType, shape: &[usize], strides: &[isize]) -> Result<()> {
        if shape.len() != strides.len() {
            bail!("{name}: {} sizes but {} strides", shape.len(), strides.len());
        }
        let Some(&bytes) = self.spaces.get(at.space as usize) else {
            bail!("{name}: space {} does not exist, there are {}", at.space, self.spaces.len());
        };
        if !at.offset.is_multiple_of(dtype.size()) {
            bail!("{name}: offset {} is not aligned to {}", at.offset, dtype.name());
        }
        if role == Role::Scratch && !at.offset.is_multiple_of(64) {
            bail!("{name}: offset {} is not a multiple of 64", at.offset);
        }
        let elements = count(shape).map_err(|e| e.at(name))?;
        let (mut low, mut high) = (at.offset as i128, at.offset as i128);
        if elements > 0 {
            for (&size, &stride) in shape.iter().zip(strides) {
                let span = (size as i128 - 1) * stride as i128 * dtype.size() as i128;
                *(if span < 0 { &mut low } else { &mut high }) += span;
            }
            high += dtype.size() as i128;
        }
        // An empty view accesses no bytes, so its offset may be anywhere.
        if elements > 0 && (low < 0 || high > bytes as i128) {
            bail!(
                "{name}: {} of shape {shape:?} and strides {strides:?} at offset {} covers bytes {low}..{high}, but space {} has {bytes}",
                dtype.name(), at.offset, at.space
            );
        }
        if !role.reads() && at.space > 0 {
            self.written[at.space as usize - 1] = true;
        }
        let dims = shape.iter().zip(strides).filter(|(s, _)| **s > 1).map(|(s, t)| (*s, *t)).collect();
        self.regions.push(Region {
            name: name.to_string(),
            role,
            space: at.space,
            low: low as usize,
            high: high as usize,
            view: (at.offset, dtype, dims),
        });
        Ok(())
    }

    /// Refuses overlaps, except an output that is the same view as an input that may be replaced.
    pub fn finish(self) -> Result<()> {
        self.log.extend(self.regions.iter().cloned().map(|region| (self.step, region)));
        self.in_flight.check(&self.regions)?;
        for (i, a) in self.regions.iter().enumerate() {
            for b in &self.regions[..i] {
                if !a.collides(b) {
                    continue;
                }
                let roles = [a.role, b.role];
                if roles.contains(&Role::Replaced) && roles.contains(&Role::Write) && a.view == b.view {
                    continue;
                }
                bail!("{a} overlaps {b}");
            }
        }
        match self.starts {
            Some(handle) => self.in_flight.start(handle, self.regions),
            None => Ok(()),
        }
    }
}

/// Refuses strides that give several elements of an output the same address.
fn apart(shape: &[usize], strides: &[isize]) -> Result<()> {
    let wide = shape.iter().zip(strides).filter(|(size, _)| **size > 1);
    let mut dims: Vec<(usize, usize)> = wide.map(|(size, stride)| (stride.unsigned_abs(), *size)).collect();
    dims.sort_unstable();
    let mut reach = 0;
    for (stride, size) in dims {
        if stride <= reach {
            bail!("strides {strides:?} of an output make elements of shape {shape:?} share addresses");
        }
        reach += stride * (size - 1);
    }
    Ok(())
}

/// A field that calls of this kernel must have.
pub fn required<T>(name: &str, value: Option<T>) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => bail!("missing field `{name}`"),
    }
}

/// A list that must have `N` addresses.
pub fn exactly<const N: usize>(name: &str, list: &[At]) -> Result<[At; N]> {
    match list.try_into() {
        Ok(list) => Ok(list),
        Err(_) => bail!("{name}: takes {N} values, got {}", list.len()),
    }
}
