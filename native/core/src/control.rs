//! Loops and branches: steps that hold steps.

use crate::dtype::DType;
use crate::exec::{Run, Step};
use crate::flights::Flights;
use crate::generate::Generate;
use crate::program::{BranchJson, LoopJson, StepJson};
use crate::verify::{At, Checker, Region};
use crate::{bail, Error, Result};
use serde_json::Value;

/// Loops within loops beyond this are refused, so that no program exhausts the stack.
const MAX_DEPTH: usize = 16;

/// Steps in order, each with its number among all steps of the program.
#[derive(Default)]
pub(crate) struct Block {
    pub steps: Vec<(usize, Step)>,
}

/// Reads and verifies steps, and the steps in them.
pub(crate) struct Reader<'a> {
    pub spaces: &'a [usize],
    pub written: &'a mut [bool],
    pub next: usize,
    pub depth: usize,
    pub generate: Generate,
    pub flights: Flights,
    /// The accesses of all steps, where somebody asks for them.
    pub log: Option<Vec<Region>>,
}

impl Reader<'_> {
    pub fn block(&mut self, values: Vec<Value>) -> Result<Block> {
        if self.depth > MAX_DEPTH {
            bail!("loops and branches are nested deeper than {MAX_DEPTH}");
        }
        self.depth += 1;
        let mut steps = Vec::with_capacity(values.len());
        for (i, value) in values.into_iter().enumerate() {
            let kernel = value.get("k").and_then(Value::as_str).unwrap_or("?").to_string();
            let number = self.next;
            self.next += 1;
            self.flights.outermost = (self.depth == 1).then_some(i);
            let step = self.step(value).map_err(|e| e.at(format!("op {i} ({kernel})")))?;
            steps.push((number, step));
        }
        self.depth -= 1;
        if self.depth == 0 {
            self.flights.finish()?;
        }
        Ok(Block { steps })
    }

    fn step(&mut self, value: Value) -> Result<Step> {
        let json: StepJson = serde_json::from_value(value).map_err(|e| Error::new(e.to_string()))?;
        match json {
            StepJson::Loop(json) => Ok(Step::Loop(Box::new(Loop::new(json, self)?))),
            StepJson::Branch(json) => Ok(Step::Branch(Box::new(Branch::new(json, self)?))),
            StepJson::Wait(json) => {
                self.flights.land(json.flight)?;
                Ok(Step::Wait(json.flight))
            }
            json => Step::new(json, self.checker()),
        }
    }

    fn checker(&mut self) -> Checker<'_> {
        Checker::new(self)
    }
}

impl Block {
    pub fn run(&self, run: &Run) -> Result<()> {
        for (number, step) in &self.steps {
            if let Some(error) = run.control.aborted() {
                return Err(error);
            }
            step.run(run, *number).map_err(|e| e.in_call(*number))?;
        }
        Ok(())
    }

    /// Whether some step, at any depth, is one of these.
    pub fn any(&self, wanted: &dyn Fn(&Step) -> bool) -> bool {
        self.steps.iter().any(|(_, step)| wanted(step) || step.blocks().iter().any(|block| block.any(wanted)))
    }

    /// Bytes of partial results that some step needs.
    pub fn extra(&self) -> usize {
        self.steps.iter().map(|(_, step)| step.extra()).max().unwrap_or(0)
    }
}

/// Runs steps a number of times, or as long as a condition holds. The count is there for the steps to read.
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
        let mut checker = reader.checker();
        checker.write_all("out", json.out, DType::I32, &[])?;
        if let Some(test) = json.test {
            checker.read_all("test", test, DType::Bool, &[])?;
        }
        checker.finish(false)?;
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
        let condition = reader.block(json.condition)?;
        let steps = reader.block(json.steps)?;
        Ok(Loop { times, reverse: json.reverse, count: json.out, test: json.test, condition, steps })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
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
        let mut checker = reader.checker();
        checker.read_all("test", json.test, DType::Bool, &[])?;
        checker.finish(false)?;
        let steps = reader.block(json.steps)?;
        let otherwise = reader.block(json.otherwise)?;
        Ok(Branch { test: json.test, steps, otherwise })
    }

    pub fn run(&self, run: &Run) -> Result<()> {
        let holds = unsafe { *run.ptr::<u8>(self.test) } != 0;
        if holds { &self.steps } else { &self.otherwise }.run(run)
    }
}
