//! Which points there are.

use super::SweepError;
use crate::digest::Digest;
use crate::fabric::{self, FabricError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Spanned, Table, Value};
use weir_config::VERSION;

/// Points of one sweep at most.
const MAX_POINTS: usize = 1 << 20;

/// What a plan file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    base: String,
    #[serde(rename = "axis")]
    axes: Vec<FileAxis>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAxis {
    key: Spanned<String>,
    values: Vec<Value>,
}

/// A key of the base and the values it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Path to the key: `seed`, `link.rate`, `workload.0.bytes`; a number counts within an array, from 0.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<Value>,
}

/// A sweep.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What varies. The last axis varies fastest.
    pub axes: Vec<Axis>,
    base: Table,
    /// The files it was read from: the plan, its base, and those that points name.
    pub sources: Vec<PathBuf>,
    /// Files that points name: contents by name. A name begins with the digest of the content, so that the spec of a
    /// point says all that decides its result.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where in the sweep, from 0.
    pub index: usize,
    /// Axis by axis: key and value, as in TOML.
    pub values: Vec<(String, String)>,
    /// The whole spec, as TOML.
    pub spec: String,
    /// What its result is called: a digest of weir's version and the spec.
    pub address: String,
}

impl Plan {
    /// Reads a plan and the base it names, which stands beside it unless its path is absolute.
    ///
    /// # Errors
    /// Files that cannot be read, are not TOML, or keys no axis can set: all there are, with file and, where there is one, line.
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let text = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| SweepError::File { path: path.to_owned(), error })
        };
        let file = path.display().to_string();
        let plan = text(path)?;
        // The base is looked for beside the plan, files of fabrics beside the base.
        let beside = path.parent().unwrap_or(Path::new("."));
        let mut base = PathBuf::new();
        let mut plan = Self::parse(&file, &plan, |name| {
            base = beside.join(name);
            Ok((base.display().to_string(), text(&base)?))
        })?;
        let folder = base.parent().unwrap_or(beside).to_owned();
        plan.sources = vec![path.to_owned(), base];
        plan.take_files(&folder)?;
        Ok(plan)
    }

    /// Reads the files that the base and the axes name, from `folder`, and names them by their content.
    fn take_files(&mut self, folder: &Path) -> Result<(), SweepError> {
        let mut values: Vec<&mut Value> = fabric::file_names(&mut self.base);
        for axis in &mut self.axes {
            values.extend(axis.values.iter_mut().flat_map(|value| fabric::file_names_of(&axis.key, value)));
        }
        let mut faults = Vec::new();
        for value in values {
            // What is no string the reader of the point refuses.
            let Value::String(name) = value else { continue };
            let mut contents: Vec<Vec<u8>> = Vec::new();
            for path in fabric::paths(folder, name) {
                match fabric::read_file(&path) {
                    Ok(content) => contents.push(content),
                    Err(error) => {
                        faults.push(SweepError::File { path, error });
                        break;
                    }
                }
                self.sources.push(path);
            }
            let digest = contents.iter().fold(Digest::default(), |digest, content| digest.feed(content));
            let last = Path::new(&*name).file_name().unwrap_or_default().to_string_lossy().into_owned();
            *name = format!("{digest}-{last}");
            let of_rank = |(rank, content)| (fabric::of_rank(name, rank), content);
            self.files.extend(contents.into_iter().enumerate().map(of_rank));
        }
        SweepError::of(faults)
    }

    fn parse(
        file: &str,
        text: &str,
        base: impl FnOnce(&str) -> Result<(String, String), SweepError>,
    ) -> Result<Self, SweepError> {
        let said: File = fabric::read_toml(file, text)?;
        let (base_file, base_text) = base(&said.base)?;
        let base: Table = fabric::read_toml(&base_file, &base_text)?;
        let unknown = fabric::unknown_keys(&base_text);
        let unknown = unknown.into_iter().map(|(line, problem)| wrong(&base_file, line, problem)).collect();
        SweepError::of(unknown)?;
        let line = |axis: &FileAxis| text[..axis.key.span().start].lines().count();
        let refused = |(nth, problem): (usize, String)| wrong(file, Some(line(&said.axes[nth])), problem);
        SweepError::of(wrong_axes(&said.axes, &base).into_iter().map(refused).collect())?;
        let points = said.axes.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul);
        if points > MAX_POINTS {
            return Err(wrong(file, None, format!("{points} points; at most {MAX_POINTS} are possible")));
        }
        let axis = |FileAxis { key, values }| Axis { key: key.into_inner(), values };
        let axes = said.axes.into_iter().map(axis).collect();
        Ok(Self { name: said.name, axes, base, sources: Vec::new(), files: BTreeMap::new() })
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// There is always a point.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Point `index`, below [`Plan::len`].
    pub fn point(&self, index: usize) -> Point {
        let mut rest = index;
        let mut chosen: Vec<(&Axis, &Value)> = Vec::new();
        for axis in self.axes.iter().rev() {
            chosen.push((axis, &axis.values[rest % axis.values.len()]));
            rest /= axis.values.len();
        }
        chosen.reverse();
        let mut spec = self.base.clone();
        for (axis, value) in &chosen {
            // Tried when the plan was read; where a value stands does not hang on the others.
            let set = set(&mut spec, &axis.key, value);
            debug_assert!(set.is_ok());
        }
        // A table of strings and numbers: this cannot fail.
        let spec = toml::to_string(&spec).unwrap_or_default();
        let address = Digest::of(VERSION.as_bytes()).feed(&[0]).feed(spec.as_bytes()).to_string();
        let values = chosen.into_iter().map(|(axis, value)| (axis.key.clone(), value.to_string())).collect();
        Point { index, values, spec, address }
    }

    /// All points in order.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        (0..self.len()).map(|index| self.point(index))
    }
}

fn wrong(file: &str, line: Option<usize>, problem: String) -> SweepError {
    SweepError::Plan { file: file.into(), line, column: None, problem }
}

/// What of the text of a plan, or of its base, is not as it should be.
impl From<FabricError> for SweepError {
    fn from(error: FabricError) -> Self {
        let of = |fault: &FabricError| {
            let (line, column) = fault.position();
            Self::Plan { file: fault.file().unwrap_or_default().into(), line, column, problem: fault.what() }
        };
        match error.faults() {
            [one] => of(one),
            all => Self::Several(all.iter().map(of).collect()),
        }
    }
}

/// Axes, by number, that set nothing there is, and why.
fn wrong_axes(axes: &[FileAxis], base: &Table) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut set_alone: Vec<(usize, &str, &[Value])> = Vec::new();
    for (nth, axis) in axes.iter().enumerate() {
        let key = axis.key.as_ref().as_str();
        let before = axes[..nth].iter().map(|other| other.key.as_ref().as_str());
        let within: Vec<&str> = before.filter(|other| lies_in(other, key)).collect();
        match axis.values.first() {
            None => found.push((nth, format!("axis `{key}` has no values"))),
            Some(_) if within.iter().any(|other| lies_in(key, other)) => {
                found.push((nth, format!("two axes are called `{key}`")));
            }
            Some(_) if !within.is_empty() => {
                let inner = within.join("`, `");
                let problem = format!("axis `{key}` sets anew what `{inner}` before it sets; put it first");
                found.push((nth, problem));
            }
            Some(first) => match (twice(&axis.values), set(&mut base.clone(), key, first)) {
                (Some((one, other)), _) if one == other => {
                    let problem = format!("axis `{key}` has {one} twice, which is one point; take one out");
                    found.push((nth, problem));
                }
                (Some((one, other)), _) => {
                    let problem =
                        format!("axis `{key}` has {one} and {other}, which are one point; take one out");
                    found.push((nth, problem));
                }
                (None, Ok(())) => set_alone.push((nth, key, &axis.values)),
                (None, Err(problem)) => found.push((nth, problem)),
            },
        }
    }
    let unknown = |values: &[(&str, &Value)]| {
        let mut spec = base.clone();
        // Each of them has been set by itself.
        let set = values.iter().try_for_each(|(key, value)| set(&mut spec, key, value));
        let text = set.ok().and_then(|()| toml::to_string(&spec).ok());
        text.map_or_else(Vec::new, |text| fabric::unknown_keys(&text))
    };
    for (nth, key, values) in &set_alone {
        let alone = unknown(&[(key, &values[0])]).into_iter().next();
        let Some((_, problem)) = alone else { continue };
        // It may be one beside a value of another axis, as a key of one kind of workload.
        let adds_one = |of: fn(&[Value]) -> Option<&Value>| {
            let all = set_alone.iter().filter_map(|(other, key, values)| Some((*other, *key, of(values)?)));
            let all: Vec<(usize, &str, &Value)> = all.collect();
            let without = all.iter().filter(|(other, ..)| other != nth);
            let count = |axes: &mut dyn Iterator<Item = &(usize, &str, &Value)>| {
                unknown(&axes.map(|(_, key, value)| (*key, *value)).collect::<Vec<_>>()).len()
            };
            count(&mut all.iter()) > count(&mut { without })
        };
        if adds_one(<[Value]>::first) && adds_one(<[Value]>::last) {
            found.push((*nth, format!("axis `{key}`: {problem}")));
        }
    }
    found.sort_by_key(|(nth, _)| *nth);
    found
}

/// Whether a key is of something in what another sets, or of the same. Numbers may begin with zeros.
fn lies_in(inner: &str, outer: &str) -> bool {
    let number = |step: &str| step.parse::<usize>().ok();
    let same = |(a, b): (&str, &str)| a == b || number(a).is_some_and(|a| number(b) == Some(a));
    let (inner, outer) = (inner.split('.'), outer.split('.'));
    inner.clone().count() >= outer.clone().count() && inner.zip(outer).all(same)
}

/// A value that is there more than once, however it is written.
fn twice(values: &[Value]) -> Option<(&Value, &Value)> {
    let of = |(at, value)| {
        let same = values[..at].iter().find(|other| fabric::are_the_same(other, value));
        same.map(|other| (other, value))
    };
    values.iter().enumerate().find_map(of)
}

/// Sets a value. Tables on the way are made; array elements must be there.
fn set(table: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    let problem =
        |at: &str| format!("axis `{key}`: there is nothing at `{at}` in the base that could hold it");
    let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
    if key.split('.').any(str::is_empty) {
        return Err(format!("axis `{key}`: a key looks like `link.rate` or `workload.0.bytes`"));
    }
    let mut at = Value::Table(std::mem::take(table));
    let mut place = &mut at;
    for step in path.into_iter().flat_map(|p| p.split('.')) {
        place = match place {
            // A number counts within an array, and none is there.
            Value::Table(t) if !t.contains_key(step) && step.parse::<usize>().is_ok() => {
                return Err(no_element(key, step));
            }
            Value::Table(t) => t.entry(step).or_insert_with(|| Value::Table(Table::new())),
            Value::Array(items) => {
                step.parse().ok().and_then(|i: usize| items.get_mut(i)).ok_or_else(|| problem(step))?
            }
            _ => return Err(problem(step)),
        };
    }
    match place {
        Value::Table(t) => {
            t.insert(last.to_owned(), value.clone());
        }
        Value::Array(items) => {
            *last.parse().ok().and_then(|i: usize| items.get_mut(i)).ok_or_else(|| problem(last))? =
                value.clone();
        }
        _ => return Err(problem(last)),
    }
    if let Value::Table(t) = at {
        *table = t;
    }
    Ok(())
}

fn no_element(key: &str, step: &str) -> String {
    let list = key.split(&format!(".{step}")).next().unwrap_or(key);
    format!("axis `{key}`: the base has no `{list}` to count {step} in; write a [[{list}]] there")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let base = |_: &str| {
            let text = "name = \"b\"\nstop_time = \"1ms\"\nseed = 1\n[topology]\nkind = \"direct\"\n[link]\nrate = 1\n\
                        [[workload]]\nkind = \"flow\"\n";
            Ok(("base.toml".to_owned(), text.to_owned()))
        };
        Plan::parse("plan.toml", text, base).map_err(|e| e.to_string())
    }

    const HEAD: &str = "name = \"p\"\nbase = \"base.toml\"\n";

    #[test]
    fn points_are_all_combinations_and_the_last_axis_is_fastest() {
        let text = format!(
            "{HEAD}[[axis]]\nkey = \"link.rate\"\nvalues = [\"1G\", \"2G\"]\n[[axis]]\nkey = \"workload.0.bytes\"\nvalues = [7, 8, \
             9]\n[[axis]]\nkey = \"host.rclink.retransmit\"\nvalues = [true]\n"
        );
        let plan = plan(&text).unwrap();
        let points: Vec<Point> = plan.points().collect();
        assert_eq!(points.len(), 6);
        let values = |i: usize| points[i].values.iter().map(|(_, v)| v.as_str()).collect::<Vec<_>>();
        assert_eq!(values(0), ["\"1G\"", "7", "true"]);
        assert_eq!(values(1), ["\"1G\"", "8", "true"]);
        assert_eq!(values(3), ["\"2G\"", "7", "true"]);
        let spec: Table = points[4].spec.parse().unwrap();
        assert_eq!(
            (spec["link"]["rate"].as_str(), spec["workload"][0]["bytes"].as_integer()),
            (Some("2G"), Some(8))
        );
        assert_eq!(spec["host"]["rclink"]["retransmit"].as_bool(), Some(true));
        let mut addresses: Vec<&String> = points.iter().map(|p| &p.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 6, "each point has a place of its own");
        assert_eq!(plan.point(4), points[4]);
    }

    #[test]
    fn values_with_another_unit_are_other_values() {
        let text = format!(
            "{HEAD}[[axis]]\nkey = \"switch.config.buffer.size\"\nvalues = [\"1MB\", \"1MiB\", \"1000KiB\", 1000]\n"
        );
        assert_eq!(plan(&text).unwrap().len(), 4);
    }

    #[test]
    fn what_is_no_plan_is_refused_with_file_and_place() {
        let axis = |key: &str, values: &str| format!("{HEAD}[[axis]]\nkey = \"{key}\"\nvalues = {values}\n");
        // Whole numbers have more digits than fractions.
        plan(&axis("seed", "[9007199254740992, 9007199254740993]")).unwrap();
        for (text, part) in [
            ("name = 1".to_owned(), "line 1"),
            (format!("{HEAD}axis = []\ncolour = 1\n"), "colour"),
            (axis("seed", "[]"), "no values"),
            (axis("seed", "[1, 2, 1]"), "plan.toml:4: axis `seed` has 1 twice"),
            (
                axis("link.delay", "[5, \"1us\", 1000]"),
                "axis `link.delay` has \"1us\" and 1000, which are one point",
            ),
            (axis("link.rate", "[\"1G\", \"1000M\"]"), "has \"1G\" and \"1000M\""),
            (axis("link.loss", "[0, 0.0]"), "has 0 and 0.0"),
            (axis("workload.5.bytes", "[1]"), "nothing at `5`"),
            (axis("workload.one", "[1]"), "nothing at `one`"),
            (axis("seed.x", "[1]"), "nothing at `x`"),
            (axis("a..b", "[1]"), "looks like"),
            (axis("buffer.profile.0.x", "[1]"), "write a [[buffer.profile]] there"),
            (axis("seed", "[1]") + "[[axis]]\nkey = \"seed\"\nvalues = [2]\n", "two axes"),
            (
                axis("workload.0.bytes", "[1]") + "[[axis]]\nkey = \"workload.00.bytes\"\nvalues = [2]\n",
                "two axes",
            ),
            (
                axis("workload.0.bytes", "[1, 2]")
                    + "[[axis]]\nkey = \"workload.0\"\nvalues = [{ kind = \"incast\", to = \"h0\", bytes = 5 }]\n",
                "axis `workload.0` sets anew what `workload.0.bytes` before it sets; put it first",
            ),
        ] {
            let error = plan(&text).unwrap_err();
            assert!(
                error.starts_with("plan.toml:") && error.contains(part),
                "{error}\n--- should say: {part}"
            );
        }
        let error =
            Plan::parse("plan.toml", &axis("seed", "[1]"), |_| Ok(("base.toml".into(), "x = ".into())));
        assert!(error.unwrap_err().to_string().starts_with("base.toml:1: "));
        // All of a plan, all of its axes, all keys of its base.
        let told = |text: &str| {
            plan(text).unwrap_err().lines().filter(|line| line.starts_with("plan.toml:")).count()
        };
        assert_eq!(told("[[axis]]\nkey = 7\n[[axis]]\nvalues = 1\n"), 6);
        let axes = axis("seed.x", "[1]")
            + "[[axis]]\nkey = \"link.rat\"\nvalues = [1]\n[[axis]]\nkey = \"seed\"\nvalues = []\n\
                    [[axis]]\nkey = \"link.delay\"\nvalues = [1]\n[[axis]]\nkey = \"sede\"\nvalues = [2, 3]\n";
        let error = plan(&axes).unwrap_err();
        for (line, part) in [
            (4, "nothing at `x`"),
            (7, "unknown field `rat`"),
            (10, "no values"),
            (16, "unknown field `sede`"),
        ] {
            let place = format!("plan.toml:{line}: axis `");
            assert!(
                error.lines().any(|l| l.starts_with(&place) && l.contains(part)),
                "{error}\n--- {line}: {part}"
            );
        }
        assert_eq!(error.lines().count(), 4, "{error}");
        let base = |_: &str| {
            Ok(("b.toml".into(), "sede = 1\n[link]\nrat = 2\n[switch.config.buffer]\nsise = 3\n".into()))
        };
        let error = Plan::parse("plan.toml", &axis("seed", "[1]"), base).unwrap_err().to_string();
        assert!(
            error.lines().count() == 3
                && ["b.toml:1: ", "b.toml:3: ", "b.toml:5: "].iter().all(|at| error.contains(at)),
            "{error}"
        );
        let error = Plan::read(Path::new("/nowhere/plan.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/plan.toml"), "{error}");
    }
}
