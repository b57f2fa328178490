//! The last linear layer of a classifier: what enters it are the features, what leaves it are the logits.

use std::collections::HashMap;

use half::{bf16, f16};

use crate::nodes::attribute;
use crate::proto::{DataType, GraphProto, NodeProto, TensorProto};

/// Nodes that are passed on the way, at most: a damaged graph may go in circles.
const LONGEST_WAY: usize = 64;

/// Where a classifier's last linear layer is, and what it multiplies with.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadPlace {
    /// The value that enters it, [rows, width].
    pub features: String,
    /// The value that leaves it, [rows, classes].
    pub logits: String,
    /// [classes, width], row-major.
    pub weight: Vec<f32>,
    /// `[classes]`.
    pub bias: Vec<f32>,
    /// Number of logits.
    pub classes: usize,
    /// Width of the features.
    pub width: usize,
}

/// Finds the last linear layer before an output of the graph: `Gemm`, or `MatMul` with or without an `Add`, behind which
/// nothing but `Flatten`, `Dropout`, `Identity`, `Cast`, `Squeeze`, `Reshape` or a softmax follows. The first output that has one counts.
///
/// # Errors
/// A sentence that says what is there instead.
pub fn find_head(graph: &GraphProto) -> Result<HeadPlace, String> {
    let search = Search::new(graph);
    let mut reasons = Vec::new();
    for output in &graph.output {
        match search.before(output.name()) {
            Ok(place) => return Ok(place),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.into_iter().next().unwrap_or_else(|| "the graph has no outputs".to_owned()))
}

struct Search<'a> {
    sources: HashMap<&'a str, &'a NodeProto>,
    weights: HashMap<&'a str, &'a TensorProto>,
}

/// A table of constants.
struct Table {
    rows: usize,
    columns: usize,
    numbers: Vec<f32>,
}

impl Table {
    fn transposed(self) -> Table {
        let Table { rows, columns, numbers } = self;
        let numbers = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| row * columns + column))
            .map(|at| numbers[at])
            .collect();
        Table { rows: columns, columns: rows, numbers }
    }
}

impl<'a> Search<'a> {
    fn new(graph: &'a GraphProto) -> Self {
        let outputs =
            |node: &'a NodeProto| node.output.iter().map(move |name| (name.as_str(), node));
        Search {
            sources: graph.node.iter().flat_map(outputs).collect(),
            weights: graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).collect(),
        }
    }

    fn before(&self, output: &str) -> Result<HeadPlace, String> {
        let mut name = output;
        for _ in 0..LONGEST_WAY {
            let Some(node) = self.sources.get(name) else {
                return Err(format!("no linear layer before the output `{output}`"));
            };
            match node.op_type() {
                "Flatten" | "Dropout" | "Identity" | "Cast" | "Squeeze" | "Reshape" | "Softmax"
                | "LogSoftmax" => name = input(node, 0)?,
                "Gemm" => return self.gemm(node),
                "Add" => return self.product_and_sum(node),
                "MatMul" => return self.product(node, None, &node.output[0]),
                other => {
                    return Err(format!(
                        "expected a linear layer (Gemm, or MatMul and Add) before the output `{output}`, got `{other}`"
                    ));
                }
            }
        }
        Err(format!("no linear layer before the output `{output}`"))
    }

    fn gemm(&self, node: &NodeProto) -> Result<HeadPlace, String> {
        let whole = |name: &str| attribute(node, name).and_then(|found| found.i).unwrap_or(0);
        let factor = |name: &str| attribute(node, name).and_then(|found| found.f).unwrap_or(1.0);
        if whole("transA") != 0 {
            return Err("the last Gemm has its features in columns (transA)".to_owned());
        }
        let table = self.table(input(node, 1)?)?;
        let mut table = if whole("transB") == 0 { table.transposed() } else { table };
        let alpha = factor("alpha");
        table.numbers.iter_mut().for_each(|x| *x *= alpha);
        let mut bias = match node.input.get(2).filter(|name| !name.is_empty()) {
            Some(name) => self.vector(name, table.rows)?,
            None => vec![0.0; table.rows],
        };
        let beta = factor("beta");
        bias.iter_mut().for_each(|x| *x *= beta);
        Ok(place(input(node, 0)?, output(node)?, table, bias))
    }

    fn product_and_sum(&self, node: &NodeProto) -> Result<HeadPlace, String> {
        let (left, right) = (input(node, 0)?, input(node, 1)?);
        // The bias may be on either side.
        let (product, bias) =
            if self.constant(right).is_some() { (left, right) } else { (right, left) };
        if self.constant(bias).is_none() {
            return Err(
                "the last Add has no constant in it, so it is no linear layer's bias".to_owned()
            );
        }
        let mut name = product;
        for _ in 0..LONGEST_WAY {
            match self.sources.get(name) {
                // One that splits the last axis shows in the bias, which then has another length.
                Some(node)
                    if ["Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze"]
                        .contains(&node.op_type()) =>
                {
                    name = input(node, 0)?;
                }
                Some(source) if source.op_type() == "MatMul" => {
                    return self.product(source, Some(bias), output(node)?);
                }
                _ => break,
            }
        }
        Err("the last Add does not follow a MatMul, so it is no linear layer's bias".to_owned())
    }

    fn product(
        &self,
        node: &NodeProto,
        bias: Option<&str>,
        logits: &str,
    ) -> Result<HeadPlace, String> {
        let table = self.table(input(node, 1)?)?.transposed();
        let bias = match bias {
            Some(name) => self.vector(name, table.rows)?,
            None => vec![0.0; table.rows],
        };
        Ok(place(input(node, 0)?, logits, table, bias))
    }

    /// A constant: a weight, or what a Constant node gives.
    fn constant(&self, name: &str) -> Option<&'a TensorProto> {
        let mut name = name;
        for _ in 0..LONGEST_WAY {
            if let Some(tensor) = self.weights.get(name) {
                return Some(tensor);
            }
            let node = self.sources.get(name)?;
            match node.op_type() {
                "Constant" => return node.attribute.iter().find_map(|found| found.t.as_ref()),
                "Identity" | "Cast" => name = node.input.first()?,
                _ => return None,
            }
        }
        None
    }

    /// A constant of two dimensions, which may be the transpose of one.
    fn table(&self, name: &str) -> Result<Table, String> {
        if let Some(tensor) = self.constant(name) {
            let &[rows, columns] = &tensor.dims[..] else {
                return Err(format!(
                    "the last linear layer's weight `{name}`: expected two dimensions, got {:?}",
                    tensor.dims
                ));
            };
            let numbers = numbers(tensor)?;
            let (rows, columns) = (rows.max(0) as usize, columns.max(0) as usize);
            if rows == 0 || columns == 0 || rows.checked_mul(columns) != Some(numbers.len()) {
                return Err(format!(
                    "the last linear layer's weight `{name}`: expected numbers for sizes {:?}, got {}",
                    tensor.dims,
                    numbers.len()
                ));
            }
            return Ok(Table { rows, columns, numbers });
        }
        match self.sources.get(name) {
            Some(node)
                if node.op_type() == "Transpose" && self.constant(input(node, 0)?).is_some() =>
            {
                Ok(self.table(input(node, 0)?)?.transposed())
            }
            _ => Err(format!("the last linear layer's weight `{name}` is no constant")),
        }
    }

    /// A bias: one number per class, or one for all.
    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, String> {
        let tensor = self
            .constant(name)
            .ok_or_else(|| format!("the last linear layer's bias `{name}` is no constant"))?;
        let numbers = numbers(tensor)?;
        match numbers.len() {
            1 => Ok(vec![numbers[0]; length]),
            got if got == length => Ok(numbers),
            got => Err(format!(
                "the last linear layer's bias `{name}`: expected {length} numbers, got {got}"
            )),
        }
    }
}

fn place(features: &str, logits: &str, table: Table, bias: Vec<f32>) -> HeadPlace {
    HeadPlace {
        features: features.to_owned(),
        logits: logits.to_owned(),
        weight: table.numbers,
        bias,
        classes: table.rows,
        width: table.columns,
    }
}

fn input(node: &NodeProto, index: usize) -> Result<&str, String> {
    let name = node.input.get(index).map(String::as_str).filter(|name| !name.is_empty());
    name.ok_or_else(|| format!("a node of type `{}` lacks input {index}", node.op_type()))
}

fn output(node: &NodeProto) -> Result<&str, String> {
    let name = node.output.first().map(String::as_str).filter(|name| !name.is_empty());
    name.ok_or_else(|| format!("a node of type `{}` has no output", node.op_type()))
}

/// The numbers of a float tensor, in single precision.
pub(crate) fn numbers(tensor: &TensorProto) -> Result<Vec<f32>, String> {
    let raw = tensor.raw_data.as_deref();
    let halves = |from: fn(u16) -> f32| match raw {
        Some(raw) => raw.as_chunks().0.iter().map(|&word| from(u16::from_le_bytes(word))).collect(),
        None => tensor.int32_data.iter().map(|&bits| from(bits as u16)).collect(),
    };
    match DataType::try_from(tensor.data_type.unwrap_or(0)) {
        Ok(DataType::Float) => Ok(match raw {
            Some(raw) => raw.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect(),
            None => tensor.float_data.clone(),
        }),
        Ok(DataType::Double) => Ok(match raw {
            Some(raw) => {
                raw.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word) as f32).collect()
            }
            None => tensor.double_data.iter().map(|&x| x as f32).collect(),
        }),
        Ok(DataType::Float16) => Ok(halves(|bits| f16::from_bits(bits).to_f32())),
        Ok(DataType::Bfloat16) => Ok(halves(|bits| bf16::from_bits(bits).to_f32())),
        _ => Err(format!("the tensor `{}` holds no reals", tensor.name())),
    }
}
