//! Reads and verifies the steps of a program: a kernel is made only after all accesses of its call have been checked.

use serde_json::Value;

use crate::calls::KERNELS;
use crate::fields::Fields;
use crate::generate::Generate;
use crate::step::{Block, Kernel, Step};
use crate::verify::{Checker, InFlight, Region};
use crate::{bail, Result};

/// Makes the kernel of a step from the fields of its call.
pub(crate) type Load = fn(&mut Fields, &mut Reader) -> Result<Box<dyn Kernel>>;

/// The table `KERNELS` of a module: kernels by name, each with the function that makes the kernel from its call. The macro checks
/// the operands of the call first. Some functions also take the reader, and a name that is a Rust keyword is given as text.
macro_rules! kernels {
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $text:literal) => { $text };
    (@make $call:ident $reader:ident, $make:expr) => { $make($call) };
    (@make $call:ident $reader:ident, $make:expr, reader) => { $make($call, $reader) };
    ($($name:ident $(as $text:literal)? $(($more:ident))? = $make:expr;)*) => {
        pub(crate) const KERNELS: &[(&str, crate::reader::Load)] = &[
            $((crate::reader::kernels!(@name $name $($text)?), |fields, reader| {
                let call = crate::fields::Take::take(fields)?;
                reader.check(|checker| crate::operands::$name(&call, checker))?;
                Ok(Box::new(crate::reader::kernels!(@make call reader, $make $(, $more)?)?))
            })),*
        ];
    };
}
pub(crate) use kernels;

/// The deepest nesting of loops and branches, so that no program exhausts the stack.
const MAX_DEPTH: usize = 16;

/// Reads and verifies steps, nested steps included.
pub struct Reader<'a> {
    pub spaces: &'a [usize],
    pub written: &'a mut [bool],
    pub next: usize,
    pub depth: usize,
    pub generate: Generate,
    pub in_flight: InFlight,
    /// Finds a kernel by name.
    pub(crate) load: fn(&str) -> Option<(&'static str, Load)>,
    /// The accesses of all steps, with the steps' numbers.
    pub log: Vec<(usize, Region)>,
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
            self.in_flight.outermost = (self.depth == 1).then_some(i);
            let (name, kernel) = self.kernel(value).map_err(|e| e.at(format!("op {i} ({kernel})")))?;
            steps.push(Step { name, number, kernel });
        }
        self.depth -= 1;
        if self.depth == 0 {
            self.in_flight.finish()?;
        }
        Ok(Block { steps })
    }

    fn kernel(&mut self, value: Value) -> Result<(&'static str, Box<dyn Kernel>)> {
        let mut fields = Fields::of(value)?;
        let k: String = fields.need("k")?;
        let known = KERNELS.iter().find(|(name, _)| *name == k);
        let (Some((_, known)), Some((name, load))) = (known, (self.load)(&k)) else { bail!("there is no kernel {k}") };
        fields.only(known)?;
        Ok((name, load(&mut fields, self)?))
    }

    /// Checks the accesses of a step.
    pub fn check(&mut self, operands: impl FnOnce(&mut Checker) -> Result<()>) -> Result<()> {
        let Reader { spaces, written, in_flight, log, next, .. } = self;
        let mut checker =
            Checker { spaces, in_flight, regions: Vec::new(), written, starts: None, log, step: *next - 1 };
        operands(&mut checker)?;
        checker.finish()
    }
}
