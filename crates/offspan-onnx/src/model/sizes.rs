//! How large values become when a model runs, as far as its constants tell: a file of a hundred bytes can ask for more memory than
//! there is. Sizes that cannot be told are left open; so this refuses no model for what it does not understand, but loops.

use crate::nodes::{inner, int, ints, order, what};
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::shapes::{About, Known, Numbers, Shape, in_words};

/// Numbers of one value, at most: 2 GiB.
const MOST_NUMBERS: u64 = 1 << 29;
/// How often a loop may turn. An engine cannot be stopped while it runs.
const MOST_TURNS: u64 = 1 << 10;
/// Nodes inside loops that are carried out, at most, counted in every turn.
const MOST_STEPS: usize = 1 << 18;

/// Fails if a value would be too large with an input of this shape, or a loop too long.
pub(crate) fn check_sizes(
    model: &ModelProto,
    input: &str,
    shape: &[Option<usize>],
) -> Result<(), String> {
    let Some(graph) = &model.graph else { return Ok(()) };
    let shape: Shape = shape.iter().map(|size| size.map(|size| size as u64)).collect();
    check_size("the input", Some(&shape))?;
    let mut walk = Walk { known: Known::default(), steps: 0 };
    if let Some(input) = graph.input.iter().find(|known| known.name() == input) {
        walk.known.set(input.name(), About::of_shape(Some(shape)));
    }
    walk.graph(graph, false)
}

/// Fails for a value with too many numbers. Of sizes that are not known, each is at least 1.
fn check_size(what: &str, shape: Option<&Shape>) -> Result<(), String> {
    let Some(shape) = shape else { return Ok(()) };
    let total = shape.iter().fold(1_u64, |total, size| total.saturating_mul(size.unwrap_or(1)));
    if total <= MOST_NUMBERS {
        return Ok(());
    }
    Err(format!(
        "{what} would give {} numbers; expected at most {MOST_NUMBERS} (a smaller --batch needs less)",
        in_words(shape)
    ))
}

struct Walk<'a> {
    known: Known<'a>,
    /// Nodes inside loops so far.
    steps: usize,
}

impl<'a> Walk<'a> {
    fn graph(&mut self, graph: &'a GraphProto, turns: bool) -> Result<(), String> {
        self.known.weights(graph);
        for index in order(graph) {
            let node = &graph.node[index];
            self.steps += usize::from(turns);
            if self.steps > MOST_STEPS {
                return Err(format!(
                    "its loops would carry out more than {MOST_STEPS} nodes, which cannot be stopped"
                ));
            }
            match node.op_type() {
                "If" => self.branches(node, turns)?,
                "Loop" => self.turns(node)?,
                "Scan" => self.scan(node)?,
                _ => {
                    for graph in inner(node) {
                        self.graph(graph, turns)?;
                    }
                    self.known.learn(node);
                }
            }
            for name in &node.output {
                check_size(&what(node), self.known.shape_of(name))?;
            }
        }
        Ok(())
    }

    fn results(&self, graph: &GraphProto) -> Vec<About> {
        graph.output.iter().map(|output| self.known.about(output.name())).collect()
    }

    fn give(&mut self, node: &'a NodeProto, results: Vec<About>) {
        let mut results = results.into_iter();
        for name in &node.output {
            self.known.set(name, results.next().unwrap_or_default());
        }
    }

    /// Both branches, whichever is taken; what they agree in is known.
    fn branches(&mut self, node: &'a NodeProto, turns: bool) -> Result<(), String> {
        let mut both: Option<Vec<About>> = None;
        for graph in inner(node) {
            self.graph(graph, turns)?;
            let results = self.results(graph);
            both = Some(match both {
                None => results,
                Some(others) => others.into_iter().zip(results).map(agreed).collect(),
            });
        }
        self.give(node, both.unwrap_or_default());
        Ok(())
    }

    /// A loop with a number of turns that is known: what it carries may grow with each.
    fn turns(&mut self, node: &'a NodeProto) -> Result<(), String> {
        let count = self.known.single(node, 0);
        let count = Self::few(node, count.map(|count| count.max(0.0) as u64))?;
        let Some(body) = inner(node).next() else { return Ok(()) };
        let mut carried: Vec<About> =
            node.input.iter().skip(2).map(|name| self.known.about(name)).collect();
        let width = carried.len();
        let mut results = carried.clone();
        for turn in 0..count {
            let first = [
                About { shape: Some(Vec::new()), numbers: Some(Numbers::one(turn)) },
                About::default(),
            ];
            self.enter(body, first.into_iter().chain(carried));
            self.graph(body, true)?;
            // The first result is whether to go on.
            results = self.results(body).into_iter().skip(1).collect();
            carried = results.iter().take(width).cloned().collect();
        }
        self.give(node, stacked(results, width, count));
        Ok(())
    }

    /// A turn for each slice of the inputs behind those that are carried.
    fn scan(&mut self, node: &'a NodeProto) -> Result<(), String> {
        let slices = int(node, "num_scan_inputs").and_then(|count| usize::try_from(count).ok());
        let width = slices.and_then(|slices| node.input.len().checked_sub(slices));
        let axes = ints(node, "scan_input_axes").unwrap_or_default();
        // Others are not read by the engines either.
        let along_rows = axes.iter().all(|&axis| axis == 0);
        let shape = width.filter(|_| along_rows).and_then(|width| self.known.shape(node, width));
        let count = Self::few(node, shape.and_then(|shape| shape.first().copied().flatten()))?;
        let (Some(body), Some(width)) = (inner(node).next(), width) else { return Ok(()) };
        let about = |name: &String| self.known.about(name);
        let mut carried: Vec<About> = node.input[..width].iter().map(about).collect();
        let slice = |name: &String| {
            let shape = self.known.shape_of(name);
            About::of_shape(shape.and_then(|shape| Some(shape.get(1..)?.to_vec())))
        };
        let slices: Vec<About> = node.input[width..].iter().map(slice).collect();
        let mut results = carried.clone();
        for _ in 0..count {
            self.enter(body, carried.into_iter().chain(slices.iter().cloned()));
            self.graph(body, true)?;
            results = self.results(body);
            carried = results.iter().take(width).cloned().collect();
        }
        self.give(node, stacked(results, width, count));
        Ok(())
    }

    /// Gives a body its inputs.
    fn enter(&mut self, body: &'a GraphProto, given: impl Iterator<Item = About>) {
        let mut given = given;
        for input in &body.input {
            self.known.set(input.name(), given.next().unwrap_or_default());
        }
    }

    /// A number of turns that is known and small.
    fn few(node: &NodeProto, count: Option<u64>) -> Result<u64, String> {
        match count {
            Some(count) if count <= MOST_TURNS => Ok(count),
            Some(count) => Err(format!(
                "{} would turn {count} times; expected at most {MOST_TURNS}, for what runs cannot be stopped",
                what(node)
            )),
            None => Err(format!(
                "{} has no constant number of turns; expected one of at most {MOST_TURNS}, for what runs cannot be \
                 stopped",
                what(node)
            )),
        }
    }
}

/// What is known of a value that is one of two.
fn agreed((one, other): (About, About)) -> About {
    let shape = match (one.shape, other.shape) {
        (Some(one), Some(other)) if one.len() == other.len() => {
            let size = |(a, b): (Option<u64>, Option<u64>)| a.zip(b).map(|(a, b)| a.max(b));
            Some(one.into_iter().zip(other).map(size).collect())
        }
        _ => None,
    };
    About { shape, numbers: one.numbers.filter(|numbers| other.numbers.as_ref() == Some(numbers)) }
}

/// The results of a body, those behind the carried ones from each turn.
fn stacked(results: Vec<About>, width: usize, turns: u64) -> Vec<About> {
    let of_all = |(index, about): (usize, About)| {
        if index < width {
            return about;
        }
        let shape = about.shape.map(|shape| [&[Some(turns)][..], &shape].concat());
        About::of_shape(shape)
    };
    results.into_iter().enumerate().map(of_all).collect()
}
