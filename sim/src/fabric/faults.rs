//! Faults of a fabric that are found beside one another: whoever wrote it is told all.

use super::FabricError;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<FabricError>);

impl Faults {
    /// What there is, unless it is a fault: that is kept.
    pub fn keep<T>(&mut self, found: Result<T, FabricError>) -> Option<T> {
        found
            .map_err(|error| match error {
                FabricError::Several(more) => self.0.extend(more),
                one => self.0.push(one),
            })
            .ok()
    }

    /// Keeps a fault.
    pub fn add(&mut self, fault: FabricError) {
        self.keep::<()>(Err(fault));
    }

    /// Nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it as one.
    pub fn into_error(mut self) -> FabricError {
        match self.0.len() {
            1 => self.0.remove(0),
            _ => FabricError::Several(self.0),
        }
    }

    /// # Errors
    /// What was kept.
    pub fn refuse(self) -> Result<(), FabricError> {
        if self.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }
}

impl FromIterator<Result<(), FabricError>> for Faults {
    fn from_iter<I: IntoIterator<Item = Result<(), FabricError>>>(all: I) -> Self {
        let mut faults = Self::default();
        all.into_iter().for_each(|found| {
            faults.keep(found);
        });
        faults
    }
}

/// Both, or the faults of both.
pub(super) fn both<A, B>(
    a: Result<A, FabricError>,
    b: Result<B, FabricError>,
) -> Result<(A, B), FabricError> {
    let mut faults = Faults::default();
    match (faults.keep(a), faults.keep(b)) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(faults.into_error()),
    }
}

/// A line for each.
pub(super) fn lines(faults: &[FabricError]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
