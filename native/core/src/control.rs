//! Loops and branches: steps that hold steps.

use crate::exec::{Kernel, Load, Run, Step};
use crate::fields::{Fields, Take};
use crate::flights::Flights;
use crate::generate::Generate;
use crate::kernels;
use crate::program::{operands, BranchJson, LoopJson, WaitJson, KERNELS};
use crate::verify::{At, Checker, Region};
use crate::{bail, Error, Result};
use serde_json::Value;

pub(crate) const STEPS: &[(&str, Load)] = &[
    ("loop", |fields, reader| {
        let call = LoopJson::take(fields)?;
        reader.check(|checker| operands::r#loop(&call, checker))?;
        Ok(Box::new(Loop::new(call, reader)?))
    }),
    ("branch", |fields, reader| {
        let call = BranchJson::take(fields)?;
        reader.check(|checker| operands::branch(&call, checker))?;
        Ok(Box::new(Branch::new(call, reader)?))
    }),
    ("wait", |fields, reader| {
        let WaitJson { flight } = WaitJson::take(fields)?;
        reader.flights.land(flight)?;
        Ok(Box::new(Wait(flight)))
    }),
];

/// Waits for what is under way by this number.
struct Wait(u32);

impl Kernel for Wait {
    fn lands(&self) -> bool {
        true
    }

    fn run(&self, run: &Run, _step: usize) -> Result<()> {
        run.leg.wait(self.0, run)
    }
}

/// Loops within loops beyond this are refused, so that no program exhausts the stack.
const MAX_DEPTH: usize = 16;

/// Steps in order.
#[derive(Default)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
}

/// Reads and verifies steps, and the steps in them.
pub struct Reader<'a> {
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
    pub(crate) fn block(&mut self, values: Vec<Value>) -> Result<Block> {
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
            let (name, kernel) = self.kernel(value).map_err(|e| e.at(format!("op {i} ({kernel})")))?;
            steps.push(Step { name, number, kernel });
        }
        self.depth -= 1;
        if self.depth == 0 {
            self.flights.finish()?;
        }
        Ok(Block { steps })
    }

    fn kernel(&mut self, value: Value) -> Result<(&'static str, Box<dyn Kernel>)> {
        let mut fields = Fields::of(value)?;
        let k: String = fields.need("k")?;
        let known = KERNELS.iter().find(|(name, _)| *name == k);
        let load = kernels::all().find(|(name, _)| *name == k);
        let (Some((name, known)), Some((_, load))) = (known, load) else { bail!("there is no kernel {k}") };
        fields.only(known)?;
        Ok((name, load(&mut fields, self)?))
    }

    /// Checks what a step touches.
    pub fn check(&mut self, operands: impl FnOnce(&mut Checker) -> Result<()>) -> Result<()> {
        let mut checker = Checker::new(self);
        operands(&mut checker)?;
        checker.finish()
    }
}

impl Block {
    pub fn run(&self, run: &Run) -> Result<()> {
        for step in &self.steps {
            if let Some(error) = run.control.aborted() {
                return Err(error);
            }
            step.run(run).map_err(|e| e.in_call(step.number))?;
        }
        Ok(())
    }

    /// Whether some step, at any depth, is one of these.
    pub fn any(&self, wanted: &dyn Fn(&dyn Kernel) -> bool) -> bool {
        let holds = |kernel: &dyn Kernel| wanted(kernel) || kernel.blocks().iter().any(|block| block.any(wanted));
        self.steps.iter().any(|step| holds(&*step.kernel))
    }

    /// Bytes of partial results that some step needs.
    pub fn extra(&self) -> usize {
        self.steps.iter().map(|step| step.kernel.extra()).max().unwrap_or(0)
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
