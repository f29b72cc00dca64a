//! What the steps of a loop access, as far as their addresses have not been changed.

use serde_json::{json, Value};

use crate::kernels::narrow_layer::lives::Lives;
use crate::verify::Region;

/// The accesses of each step of a loop.
pub(super) struct Steps(Vec<Vec<Region>>);

impl Steps {
    /// Of the loop at a place, whose number it is; `None` for a loop with loops or branches in it.
    pub fn new(lives: &Lives, place: usize, number: usize, calls: &[Value]) -> Option<Steps> {
        let mut steps = vec![Vec::new(); calls.len()];
        if calls.iter().any(|call| call["k"] == "loop" || call["k"] == "branch") {
            return None;
        }
        for (of, region) in lives.numbered(place).filter(|(of, _)| *of != number) {
            steps.get_mut(of - number - 1)?.push(region.clone());
        }
        Some(Steps(steps))
    }

    pub fn of(&self, step: usize) -> &[Region] {
        &self.0[step]
    }

    /// Forgets a step that will do nothing.
    pub fn clear(&mut self, step: usize) {
        self.0[step].clear();
    }

    /// Whether a step reads, and whether it writes, bytes of the region.
    pub fn meets(&self, step: usize, region: &Region) -> [bool; 2] {
        let meets = |reads: bool| self.0[step].iter().any(|r| r.role.reads() == reads && r.overlaps(region));
        [meets(true), meets(false)]
    }

    /// Whether all that a step reads of the region, or accesses, is within it and has addresses that can be changed.
    pub fn inside(&self, step: usize, region: &Region, reads: bool, call: &Value) -> bool {
        let inside = |r: &Region| r.low >= region.low && r.high <= region.high && address(call, &r.name).is_some();
        self.0[step].iter().filter(|r| r.overlaps(region) && (r.role.reads() || !reads)).all(inside)
    }

    /// Gives the step's reads, its writes, or both, of the region the addresses of another space.
    pub fn redirect(
        &mut self,
        step: usize,
        region: &Region,
        [reads, writes]: [bool; 2],
        call: &mut Value,
        space: usize,
    ) {
        for access in &mut self.0[step] {
            let wanted = if access.role.reads() { reads } else { writes };
            if !wanted || !access.overlaps(region) {
                continue;
            }
            if let Some(at) = address(call, &access.name).and_then(|path| call.pointer_mut(&path)) {
                let offset = at[1].as_u64().map_or(0, |offset| offset as usize - region.low);
                *at = json!([space, offset]);
            }
            (access.space, access.low, access.high) = (space as u32, access.low - region.low, access.high - region.low);
        }
    }
}

/// The path of an address in a call, by the name that the verification gives it: `in[2]`, or `x`, of an address or of a record with `at`.
fn address(call: &Value, name: &str) -> Option<String> {
    let path = format!("/{}", name.replace('[', "/").replace(['.', ']'], "/").trim_end_matches('/')).replace("//", "/");
    let is_address = |v: &Value| v.as_array().is_some_and(|at| at.len() == 2 && at.iter().all(Value::is_u64));
    let found = call.pointer(&path)?;
    if is_address(found) {
        return Some(path);
    }
    found.get("at").filter(|at| is_address(at)).map(|_| format!("{path}/at"))
}
