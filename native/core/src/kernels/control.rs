//! Loops and branches: steps that contain steps.

use crate::calls::{BranchJson, LoopJson};
use crate::reader::{kernels, Reader};
use crate::step::{Block, Kernel, Run};
use crate::verify::At;
use crate::{bail, Error, Result};

kernels! {
    r#loop as "loop"(reader) = Loop::new;
    branch(reader) = Branch::new;
}

/// Runs steps a number of times, or as long as a condition holds. The steps can read the number of the iteration.
pub(crate) struct Loop {
    times: Option<i32>,
    reverse: bool,
    count: At,
    test: Option<At>,
    pub condition: Block,
    pub steps: Block,
}

impl Loop {
    fn new(json: LoopJson, reader: &mut Reader) -> Result<Loop> {
        let times = match json.count.map(i32::try_from) {
            Some(Err(_)) => bail!("a count of {} is too large", json.count.unwrap_or(0)),
            Some(Ok(times)) => Some(times),
            None => None,
        };
        if times.is_none() == json.test.is_none() {
            bail!("needs either a count or a test");
        }
        if json.reverse && times.is_none() {
            bail!("only a loop with a count can run in reverse");
        }
        let condition = reader.block(json.condition.unwrap_or_default())?;
        let steps = reader.block(json.steps)?;
        Ok(Loop { times, reverse: json.reverse, count: json.out, test: json.test, condition, steps })
    }
}

impl Kernel for Loop {
    fn blocks(&self) -> Vec<&Block> {
        vec![&self.condition, &self.steps]
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        for i in 0..self.times.unwrap_or(i32::MAX) {
            if let Some(error) = run.control.aborted() {
                return Err(error);
            }
            let count = if self.reverse { self.times.unwrap_or(0) - 1 - i } else { i };
            unsafe { *run.ptr::<i32>(self.count) = count };
            let iteration = |e: Error| e.in_iteration(count);
            if let Some(test) = self.test {
                self.condition.run(run).map_err(iteration)?;
                if unsafe { *run.ptr::<u8>(test) } == 0 {
                    return Ok(());
                }
            }
            self.steps.run(run).map_err(iteration)?;
        }
        match self.times {
            Some(_) => Ok(()),
            None => bail!("the condition still holds after {} iterations", i32::MAX),
        }
    }
}

/// Runs one of two lists of steps.
pub(crate) struct Branch {
    test: At,
    pub steps: Block,
    pub otherwise: Block,
}

impl Branch {
    fn new(json: BranchJson, reader: &mut Reader) -> Result<Branch> {
        let steps = reader.block(json.steps)?;
        let otherwise = reader.block(json.otherwise)?;
        Ok(Branch { test: json.test, steps, otherwise })
    }
}

impl Kernel for Branch {
    fn blocks(&self) -> Vec<&Block> {
        vec![&self.steps, &self.otherwise]
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        let holds = unsafe { *run.ptr::<u8>(self.test) } != 0;
        if holds { &self.steps } else { &self.otherwise }.run(run)
    }
}
