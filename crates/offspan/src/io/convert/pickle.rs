//! What PyTorch's files say of their tensors: a small part of Python's pickle, carried out without Python. Nothing that the
//! file names is ever called: an object of a class that is not known stays a riddle.

use std::collections::HashMap;
use std::ops::Range;

use crate::io::labels::Integer;
use crate::io::matrix::ElementType;

/// The type of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberType {
    Float(ElementType),
    Integer(Integer),
}

impl NumberType {
    pub(super) fn size(self) -> usize {
        match self {
            NumberType::Float(element) => element.size(),
            NumberType::Integer(integer) => integer.size(),
        }
    }

    /// By the name of the storage's class.
    fn of(class: &str) -> Option<Self> {
        Some(match class {
            "HalfStorage" => NumberType::Float(ElementType::F16),
            "BFloat16Storage" => NumberType::Float(ElementType::Bf16),
            "FloatStorage" => NumberType::Float(ElementType::F32),
            "DoubleStorage" => NumberType::Float(ElementType::F64),
            "CharStorage" => NumberType::Integer(Integer::I8),
            "ByteStorage" => NumberType::Integer(Integer::U8),
            "ShortStorage" => NumberType::Integer(Integer::I16),
            "IntStorage" => NumberType::Integer(Integer::I32),
            "LongStorage" => NumberType::Integer(Integer::I64),
            _ => return None,
        })
    }
}

/// A tensor as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    /// The name of the file in the archive that has the numbers.
    pub(super) key: String,
    pub(super) numbers: NumberType,
    /// Where in that file it begins, in numbers.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) stride: Vec<usize>,
}

/// Values lie side by side and refer to one another by their places, so that no depth of nesting can exhaust the stack.
type Place = usize;

#[derive(Debug, Clone)]
enum Value {
    Nothing,
    Number(i64),
    Text(String),
    List(Vec<Place>),
    Dict(Vec<(Place, Place)>),
    Class(String),
    Storage { key: String, numbers: NumberType },
    Tensor(Described),
    Riddle,
}

/// The tensors at the top of a pickle: a dictionary's by their names, those of a list or tuple by their numbers, or a
/// single one without a name.
pub(super) fn tensors(bytes: &[u8]) -> Result<Vec<(String, Described)>, String> {
    let mut machine = Machine {
        bytes,
        at: 0,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    let top = machine.run()?;
    let tensor = |place: Place| match &machine.values[place] {
        Value::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    };
    Ok(match &machine.values[top] {
        Value::Tensor(tensor) => vec![(String::new(), tensor.clone())],
        Value::List(places) => {
            let numbered = places.iter().enumerate();
            numbered
                .filter_map(|(index, &place)| Some((index.to_string(), tensor(place)?)))
                .collect()
        }
        Value::Dict(pairs) => {
            let named = |&(key, value): &(Place, Place)| match &machine.values[key] {
                Value::Text(name) => Some((name.clone(), tensor(value)?)),
                _ => None,
            };
            pairs.iter().filter_map(named).collect()
        }
        _ => Vec::new(),
    })
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Place>,
    marks: Vec<usize>,
    memo: HashMap<u32, Place>,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Place, String> {
        loop {
            let at = self.at;
            let opcode = self.take(1)?[0];
            match opcode {
                // PROTO, FRAME
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'.' => return self.pop(),
                b'(' => self.marks.push(self.stack.len()),
                // POP, and BUILD: what an object is filled with does not concern us.
                b'0' | b'b' => drop(self.pop()?),
                b'N' => self.push(Value::Nothing),
                b'}' => self.push(Value::Dict(Vec::new())),
                b']' | b')' => self.push(Value::List(Vec::new())),
                // NEWTRUE, NEWFALSE
                0x88 => self.push(Value::Number(1)),
                0x89 => self.push(Value::Number(0)),
                b'J' | b'K' | b'M' | b'G' | 0x8a => self.number(opcode)?,
                b'X' | 0x8c | b'U' | b'T' | b'B' | b'C' => self.text(opcode)?,
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(Value::Class(format!("{module}.{name}")));
                }
                // STACK_GLOBAL
                0x93 => {
                    let (name, module) = (self.pop_text()?, self.pop_text()?);
                    self.push(Value::Class(format!("{module}.{name}")));
                }
                b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(opcode)?,
                b't' | b'l' => {
                    let items = self.since_mark()?;
                    self.push(Value::List(items));
                }
                0x85..=0x87 => {
                    let count = usize::from(opcode - 0x84);
                    let from =
                        self.stack.len().checked_sub(count).ok_or("it has too few values")?;
                    let items = self.stack.split_off(from);
                    self.push(Value::List(items));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                b'e' => {
                    let items = self.since_mark()?;
                    self.append(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set_items(vec![key, value])?;
                }
                b'u' => {
                    let items = self.since_mark()?;
                    self.set_items(items)?;
                }
                b'd' => {
                    let items = self.since_mark()?;
                    self.push(Value::Dict(Vec::new()));
                    self.set_items(items)?;
                }
                // REDUCE, NEWOBJ
                b'R' | 0x81 => self.call()?,
                b'Q' => self.storage()?,
                other => {
                    return Err(format!(
                        "at byte {at} it has the operation {other:#04x}, which tensors do not need"
                    ));
                }
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let cut = || "its description of the tensors ends too early".to_owned();
        let end = self.at.checked_add(count).ok_or_else(cut)?;
        let part = self.bytes.get(self.at..end).ok_or_else(cut)?;
        self.at = end;
        Ok(part)
    }

    fn little_endian(&mut self, count: usize) -> Result<u64, String> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let length =
            rest.iter().position(|&byte| byte == b'\n').ok_or("a name in it has no end")?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    fn push(&mut self, value: Value) {
        self.values.push(value);
        self.stack.push(self.values.len() - 1);
    }

    fn pop(&mut self) -> Result<Place, String> {
        self.stack.pop().ok_or_else(|| "it has too few values".to_owned())
    }

    fn pop_text(&mut self) -> Result<String, String> {
        let place = self.pop()?;
        match &self.values[place] {
            Value::Text(text) => Ok(text.clone()),
            _ => Err("a name in it is no text".to_owned()),
        }
    }

    fn since_mark(&mut self) -> Result<Vec<Place>, String> {
        let mark = self.marks.pop().ok_or("it ends a list that was not begun")?;
        if mark > self.stack.len() {
            return Err("it has too few values".to_owned());
        }
        Ok(self.stack.split_off(mark))
    }

    fn number(&mut self, opcode: u8) -> Result<(), String> {
        let number = match opcode {
            b'J' => i64::from(self.little_endian(4)? as u32 as i32),
            b'K' => self.little_endian(1)? as i64,
            b'M' => self.little_endian(2)? as i64,
            b'G' => {
                self.take(8)?;
                self.push(Value::Riddle);
                return Ok(());
            }
            _ => {
                let length = self.little_endian(1)? as usize;
                if length > 8 {
                    self.take(length)?;
                    self.push(Value::Riddle);
                    return Ok(());
                }
                let shift = 64 - 8 * length as u32;
                // Two's complement of so many bytes.
                let number = self.little_endian(length)?;
                if length == 0 { 0 } else { (number << shift) as i64 >> shift }
            }
        };
        self.push(Value::Number(number));
        Ok(())
    }

    fn text(&mut self, opcode: u8) -> Result<(), String> {
        let digits = if matches!(opcode, b'X' | b'T' | b'B') { 4 } else { 1 };
        let length = self.little_endian(digits)? as usize;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.push(Value::Text(text));
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> Result<(), String> {
        let key = match opcode {
            b'q' | b'h' => self.little_endian(1)? as u32,
            b'r' | b'j' => self.little_endian(4)? as u32,
            _ => self.memo.len() as u32,
        };
        if matches!(opcode, b'h' | b'j') {
            let place = *self.memo.get(&key).ok_or("it refers to a value that it does not have")?;
            self.stack.push(place);
            return Ok(());
        }
        let top = *self.stack.last().ok_or("it has too few values")?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn append(&mut self, items: Vec<Place>) -> Result<(), String> {
        let place = *self.stack.last().ok_or("it has too few values")?;
        if let Value::List(list) = &mut self.values[place] {
            list.extend(items);
        }
        Ok(())
    }

    fn set_items(&mut self, items: Vec<Place>) -> Result<(), String> {
        let place = *self.stack.last().ok_or("it has too few values")?;
        if let Value::Dict(pairs) = &mut self.values[place] {
            pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        }
        Ok(())
    }

    /// What PyTorch calls to put tensors together, and dictionaries; everything else stays a riddle.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        // More than these say nothing of the numbers.
        let arguments: Vec<Place> = match &self.values[arguments] {
            Value::List(places) => places.iter().take(4).copied().collect(),
            _ => Vec::new(),
        };
        let Value::Class(class) = self.values[class].clone() else {
            self.push(Value::Riddle);
            return Ok(());
        };
        let made = match class.as_str() {
            "torch._utils._rebuild_tensor_v2" => self.tensor(&arguments)?,
            "torch._utils._rebuild_parameter" => {
                match arguments.first().map(|&place| &self.values[place]) {
                    Some(Value::Tensor(tensor)) => Value::Tensor(tensor.clone()),
                    _ => Value::Riddle,
                }
            }
            "collections.OrderedDict" | "collections.defaultdict" => Value::Dict(Vec::new()),
            _ => Value::Riddle,
        };
        self.push(made);
        Ok(())
    }

    fn tensor(&self, arguments: &[Place]) -> Result<Value, String> {
        let [storage, offset, shape, stride, ..] = arguments else {
            return Err("a tensor in it is described by too few values".to_owned());
        };
        let sizes = |place: Place| -> Option<Vec<usize>> {
            let Value::List(places) = &self.values[place] else { return None };
            let size = |place: &Place| match self.values[*place] {
                Value::Number(number) => usize::try_from(number).ok(),
                _ => None,
            };
            places.iter().map(size).collect()
        };
        let offset = match self.values[*offset] {
            Value::Number(number) => usize::try_from(number).ok(),
            _ => None,
        };
        match (&self.values[*storage], offset, sizes(*shape), sizes(*stride)) {
            (Value::Storage { key, numbers }, Some(offset), Some(shape), Some(stride))
                if shape.len() == stride.len() =>
            {
                Ok(Value::Tensor(Described {
                    key: key.clone(),
                    numbers: *numbers,
                    offset,
                    shape,
                    stride,
                }))
            }
            // Numbers of a type that features and labels do not have.
            (Value::Riddle, ..) => Ok(Value::Riddle),
            _ => Err("the shape of a tensor in it cannot be read".to_owned()),
        }
    }

    /// A reference to the numbers of a tensor: ("storage", type, key, device, count).
    fn storage(&mut self) -> Result<(), String> {
        let place = self.pop()?;
        let parts: Vec<Place> = match &self.values[place] {
            Value::List(places) => places.iter().take(3).copied().collect(),
            _ => Vec::new(),
        };
        let value = |index: usize| parts.get(index).map(|&place| &self.values[place]);
        let found = match (value(0), value(1), value(2)) {
            (Some(Value::Text(kind)), Some(Value::Class(class)), Some(Value::Text(key)))
                if kind == "storage" =>
            {
                let numbers = class.strip_prefix("torch.").and_then(NumberType::of);
                numbers
                    .map_or(Value::Riddle, |numbers| Value::Storage { key: key.clone(), numbers })
            }
            _ => return Err("it refers to something that is no storage of numbers".to_owned()),
        };
        self.push(found);
        Ok(())
    }
}

impl Described {
    /// Where the numbers lie within a file of `length` bytes, and whether rows lie together. For one and two dimensions.
    pub(super) fn extent(&self, length: usize) -> Result<(Range<usize>, bool), String> {
        let count = self.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let size = self.numbers.size();
        let whole = count.and_then(|count| {
            let start = self.offset.checked_mul(size)?;
            Some(start..start.checked_add(count.checked_mul(size)?)?)
        });
        let Some(range) = whole.filter(|range| range.end <= length) else {
            return Err(format!("its shape {:?} needs more numbers than it has", self.shape));
        };
        let by_rows = match (&self.shape[..], &self.stride[..]) {
            ([_], [1]) => true,
            (&[rows, width], &[down, across]) => {
                match (down == width || rows == 1, across == 1 || width == 1) {
                    (true, true) => true,
                    _ if down == 1 && across == rows => false,
                    _ => return Err(self.scattered()),
                }
            }
            _ => return Err(self.scattered()),
        };
        Ok((range, by_rows))
    }

    fn scattered(&self) -> String {
        format!(
            "its numbers do not lie together (shape {:?}, stride {:?}); save tensor.contiguous() or tensor.clone()",
            self.shape, self.stride
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `pickle.dumps(value, 2)` gives for nested empty tuples, and what cuts and alterations of it give: no panic.
    #[test]
    fn depth_and_damage_are_errors_or_riddles() {
        let mut deep = vec![0x80, 2, b')'];
        deep.extend(std::iter::repeat_n(0x85, 100_000));
        deep.push(b'.');
        assert_eq!(tensors(&deep).unwrap(), []);
        for bytes in [
            &b""[..],
            b"\x80",
            b"t.",
            b"h\x05.",
            b"R.",
            b"Q.",
            b"X\xff\xff\xff\xff.",
            b"\x8a\xff",
            b"\xfe",
            b"0.",
        ] {
            assert!(tensors(bytes).is_err(), "{bytes:?}");
        }
        // os.system is named and called in the pickle; here nothing happens.
        let called = b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00touch\x85R.";
        assert_eq!(tensors(called).unwrap(), []);
    }

    #[test]
    fn tensors_must_lie_within_their_storage() {
        let tensor = |offset, shape: &[usize], stride: &[usize]| Described {
            key: "0".to_owned(),
            numbers: NumberType::Float(ElementType::F32),
            offset,
            shape: shape.to_vec(),
            stride: stride.to_vec(),
        };
        assert_eq!(tensor(1, &[2, 3], &[3, 1]).extent(28).unwrap(), (4..28, true));
        assert_eq!(tensor(0, &[2, 3], &[1, 2]).extent(24).unwrap(), (0..24, false));
        assert!(tensor(2, &[2, 3], &[3, 1]).extent(28).unwrap_err().contains("more numbers"));
        assert!(tensor(0, &[2, 3], &[6, 2]).extent(100).unwrap_err().contains("contiguous"));
        assert!(tensor(0, &[usize::MAX, 3], &[3, 1]).extent(100).is_err());
    }
}
